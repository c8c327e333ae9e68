#include "proto/option_value.h"

#include <algorithm>
#include <charconv>

namespace hpu {
namespace {

absl::Status Refused(std::string_view name, std::string_view value, std::string_view allowed) {
  return InvalidArgument("option ", name, " is '", value, "'; allowed: ", allowed);
}

// Requires that the whole text is one number.
template <typename Number>
bool ParseNumber(std::string_view text, Number* number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end;
}

}  // namespace

absl::Status ParseOption(std::string_view name, std::string_view value, bool* option) {
  if (value != "true" && value != "false") return Refused(name, value, "true, false");
  *option = value == "true";
  return absl::OkStatus();
}

absl::Status ParseOption(std::string_view name, std::string_view value, int64_t* option) {
  return ParseNumber(value, option) ? absl::OkStatus() : Refused(name, value, "an integer");
}

absl::Status ParseOption(std::string_view name, std::string_view value, double* option) {
  return ParseNumber(value, option) ? absl::OkStatus() : Refused(name, value, "a number");
}

absl::Status ParseOption(std::string_view name, std::string_view value,
                         std::initializer_list<std::string_view> allowed, std::string* option) {
  if (allowed.size() > 0 && std::ranges::find(allowed, value) == allowed.end()) {
    std::string names;
    for (const std::string_view one : allowed) {
      names.append(names.empty() ? "" : ", ").append(one);
    }
    return Refused(name, value, names);
  }
  *option = value;
  return absl::OkStatus();
}

std::string OptionText(bool option) { return option ? "true" : "false"; }
std::string OptionText(int64_t option) { return std::to_string(option); }
std::string OptionText(const std::string& option) { return option; }

// Returns the shortest text that reads back as the same number.
std::string OptionText(double option) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), option).ptr);
}

}  // namespace hpu
