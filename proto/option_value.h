// Values of options in a compile request, which are text that Python's options.py wrote.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hpu {

// Returns INVALID_ARGUMENT with the option, the value and what is allowed.
absl::Status ParseOption(std::string_view name, std::string_view value, bool* option);
absl::Status ParseOption(std::string_view name, std::string_view value, int64_t* option);
absl::Status ParseOption(std::string_view name, std::string_view value, double* option);
// If `allowed` is empty, every text is allowed.
absl::Status ParseOption(std::string_view name, std::string_view value,
                         std::initializer_list<std::string_view> allowed, std::string* option);

// Returns the text that ParseOption reads back; each value has one text.
std::string OptionText(bool option);
std::string OptionText(int64_t option);
std::string OptionText(double option);
std::string OptionText(const std::string& option);

}  // namespace hpu
