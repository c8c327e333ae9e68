// Reads files with graphs in text form, whose comments say what a test must check.
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

// Returns what follows `directive` on each line that begins with "// " and `directive`.
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

// Returns the first of the `CHECK:` lines that does not appear in `output` after the lines before
// it, or the first of the `CHECK-NOT:` lines that appears. The result is empty if the output has
// the form that the file demands.
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
