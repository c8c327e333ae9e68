#include "compiler_server/ir/lexer.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

namespace hpu::ir {
namespace {

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

}  // namespace

void Lexer::SkipSpace() {
  while (at_ < text_.size()) {
    if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

std::string Lexer::Position() const {
  const std::string_view before = text_.substr(0, at_);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n');
  const size_t column = start == std::string_view::npos ? at_ + 1 : at_ - start;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

bool Lexer::AtEnd() {
  SkipSpace();
  return !ok() || at_ == text_.size();
}

std::string_view Lexer::PeekWord() {
  if (!ok()) return {};
  SkipSpace();
  size_t end = at_;
  while (end < text_.size() && IsWordCharacter(text_[end])) ++end;
  return text_.substr(at_, end - at_);
}

std::string_view Lexer::Word() {
  const std::string_view word = PeekWord();
  if (word.empty()) Fail("a name is expected");
  at_ += word.size();
  return word;
}

bool Lexer::Peek(std::string_view token) {
  if (!ok()) return false;
  SkipSpace();
  if (IsWordCharacter(token[0])) return PeekWord() == token;
  return text_.substr(at_, token.size()) == token;
}

bool Lexer::Try(std::string_view token) {
  if (!Peek(token)) return false;
  at_ += token.size();
  return true;
}

void Lexer::Expect(std::string_view token) {
  if (!Try(token)) Fail("'", token, "' is expected");
}

std::string_view Lexer::ValueName() {
  Expect("%");
  return Word();
}

std::string Lexer::QuotedText() {
  Expect("\"");
  std::string text;
  while (ok()) {
    if (at_ == text_.size() || text_[at_] == '\n') {
      Fail("the quoted text has no end");
      break;
    }
    char c = text_[at_++];
    if (c == '"') break;
    if (c == '\\' && at_ < text_.size()) c = text_[at_++];
    text += c;
  }
  return text;
}

Lexer::Number Lexer::NextNumber() {
  Number number;
  if (!ok()) return number;
  SkipSpace();
  const bool negative = Try("-");
  for (const auto& [word, value] : {std::pair{"inf", std::numeric_limits<double>::infinity()},
                                    std::pair{"nan", std::numeric_limits<double>::quiet_NaN()}}) {
    if (Try(word)) {
      number.is_float = true;
      number.real = negative ? -value : value;
      return number;
    }
  }
  SkipSpace();
  size_t begin = negative && at_ > 0 && text_[at_ - 1] == '-' ? at_ - 1 : at_;
  const char* first = text_.data() + begin;
  const char* last = text_.data() + text_.size();
  const auto whole = std::from_chars(first, last, number.integer);
  const auto real = std::from_chars(first, last, number.real);
  if (real.ec != std::errc() || real.ptr == first) {
    Fail("a number is expected");
    return Number{};
  }
  number.is_float = whole.ec != std::errc() || whole.ptr != real.ptr;
  at_ = static_cast<size_t>(real.ptr - text_.data());
  return number;
}

int64_t Lexer::Integer() {
  const Number number = NextNumber();
  if (number.is_float) Fail("an integer is expected");
  return number.integer;
}

double Lexer::Real() {
  const Number number = NextNumber();
  return number.is_float ? number.real : static_cast<double>(number.integer);
}

}  // namespace hpu::ir
