// Splits the text form into tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hpu::ir {

// A cursor over the text. The first error sticks: after it every read returns an empty or zero
// value and Try() returns false, so that parsing ends soon.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    if (status_.ok()) status_ = InvalidArgument(Position(), ": ", parts...);
  }

  bool AtEnd();
  // Consumes the punctuation or keyword if it is next.
  bool Try(std::string_view token);
  void Expect(std::string_view token);
  bool Peek(std::string_view token);
  bool PeekAdjacent(char c) const { return ok() && at_ < text_.size() && text_[at_] == c; }
  // Letters, digits, '_' and '.'; empty if none is next.
  std::string_view Word();
  std::string_view PeekWord();
  std::string_view ValueName();  // "%x" -> "x"
  std::string QuotedText();
  int64_t Integer();
  struct Number {
    bool is_float = false;
    int64_t integer = 0;
    double real = 0;
  };
  Number NextNumber();
  double Real();

 private:
  void SkipSpace();
  std::string Position() const;

  std::string_view text_;
  size_t at_ = 0;
  absl::Status status_;
};

}  // namespace hpu::ir
