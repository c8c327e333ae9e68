// Files with graphs in text form, and what their comments ask of a test.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace hpu::testing {

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// What follows `directive` on each line that begins with "// " and it.
inline std::vector<std::string> Directives(const std::string& text, const std::string& directive) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string prefix = "// " + directive;
    if (line.rfind(prefix, 0) != 0) continue;
    const size_t start = line.find_first_not_of(' ', prefix.size());
    found.push_back(start == std::string::npos ? "" : line.substr(start));
  }
  return found;
}

// The first of `CHECK:` lines that does not appear in `output` behind those before it, or of
// `CHECK-NOT:` lines that appears; empty: the form is as the file says.
inline std::string FirstUnmet(const std::string& text, const std::string& output) {
  size_t from = 0;
  for (const std::string& check : Directives(text, "CHECK:")) {
    const size_t at = output.find(check, from);
    if (at == std::string::npos) return "CHECK: " + check;
    from = at + check.size();
  }
  for (const std::string& check : Directives(text, "CHECK-NOT:")) {
    if (output.find(check) != std::string::npos) return "CHECK-NOT: " + check;
  }
  return "";
}

}  // namespace hpu::testing
