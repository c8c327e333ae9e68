#include "compile_client/request_id.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/hash.h"

namespace hpu::client {
namespace {

thread_local const RequestScope* scope = nullptr;

}  // namespace

std::string NewRequestId() {
  std::array<uint8_t, 8> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  return ToHex(bytes);
}

bool IsRequestId(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
}

RequestScope::RequestScope(std::string id) : id_(std::move(id)), outer_(scope) { scope = this; }

RequestScope::~RequestScope() { scope = outer_; }

std::string RequestScope::Current() { return scope != nullptr ? scope->id_ : NewRequestId(); }

}  // namespace hpu::client
