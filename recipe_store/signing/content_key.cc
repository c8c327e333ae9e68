#include "recipe_store/signing/content_key.h"

#include <set>

#include "proto/options_generated.h"

namespace hpu::store {
namespace {

// A change of this text, or of the order below, disowns every stored program.
constexpr std::string_view kSalt = "hpu-content-key-v1";

}  // namespace

Digest ContentKey(const Content& content) {
  Hasher hasher;
  hasher.Field(kSalt)
      .Raw(content.graph.data(), content.graph.size())
      .Field(content.device_kind)
      .Field(content.isa_level)
      .Field(content.compiler_build_id)
      .Number(static_cast<int64_t>(content.options.size()));
  for (const auto& [name, value] : content.options) hasher.Field(name).Field(value);
  return hasher.Finish();
}

std::vector<KeyFactor> ContentFactors(const Content& content) {
  std::vector<KeyFactor> factors = {{"compiler", content.compiler_build_id},
                                    {"device", content.device_kind},
                                    {"isa_level", content.isa_level}};
  for (const auto& [name, value] : content.options) factors.push_back({name, value});
  factors.push_back({"graph", ToHex(content.graph)});
  return factors;
}

absl::StatusOr<OptionList> CanonicalOptions(const OptionList& given) {
  KeyOptions options;
  std::set<std::string_view> seen;
  for (const auto& [name, value] : given) {
    RETURN_IF_ERROR(SetOption(name, value, &options));
    if (!seen.insert(name).second) {
      return InvalidArgument("compile option ", name, " is given twice");
    }
  }
  return OptionTexts(options);
}

}  // namespace hpu::store
