#include "backend/torch/programs/group_names.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <string_view>

#include "backend/torch/device/errors.h"

namespace hpu::torch_backend {
namespace {

constexpr std::string_view kPrefix = "hpu_group_";

struct Table {
  std::mutex mutex;
  std::vector<std::string> names;
};

Table& Groups() {
  static auto* table = new Table;
  return *table;
}

}  // namespace

void NumberGroup(const std::string& name) {
  Table& groups = Groups();
  const std::lock_guard lock(groups.mutex);
  if (std::ranges::find(groups.names, name) == groups.names.end()) groups.names.push_back(name);
}

std::vector<std::string> NumberedGroups() {
  Table& groups = Groups();
  const std::lock_guard lock(groups.mutex);
  return groups.names;
}

std::string GroupInPrograms(const std::string& name) {
  Table& groups = Groups();
  const std::lock_guard lock(groups.mutex);
  const auto found = std::ranges::find(groups.names, name);
  if (found == groups.names.end()) return name;
  return std::string(kPrefix) + std::to_string(found - groups.names.begin());
}

void CallGroupsByPlace(const c10::FunctionSchema& schema, std::vector<Argument>* args) {
  for (size_t i = 0; i < args->size(); ++i) {
    auto* name = std::get_if<std::string>(&(*args)[i].value);
    if (name != nullptr && IsGroup(schema.arguments()[i])) *name = GroupInPrograms(*name);
  }
}

std::string GroupInProcess(const std::string& text) {
  if (!text.starts_with(kPrefix)) return text;
  size_t place = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + kPrefix.size(), end, place);
  Table& groups = Groups();
  const std::lock_guard lock(groups.mutex);
  const std::vector<std::string>& names = groups.names;
  if (error != std::errc() || last != end || place >= names.size()) {
    Throw(InvalidArgument("a program has collectives of ", text, ", and this process has joined ",
                          names.size(),
                          " process groups; make the groups before the first call of the program, "
                          "in the order that they had when it was compiled"));
  }
  return names[place];
}

}  // namespace hpu::torch_backend
