#include "backend/client/key_builder.h"

namespace hpu::client {
namespace {

// A change of it invalidates every alias. Each alias then costs a capture, but no compilation.
constexpr std::string_view kSalt = "hpu-front-end-key-v1";
constexpr size_t kMaxShownBytes = 4096;

std::string Shown(std::span<const uint8_t> value) {
  constexpr size_t kMaxHex = 64;
  if (value.size() <= kMaxHex) return ToHex(value);
  return "sha256:" + ToHex(Sha256(value));
}

}  // namespace

KeyBuilder::KeyBuilder() { hasher_.Field(kSalt); }

void KeyBuilder::AddText(std::string_view name, std::string_view value) {
  hasher_.Field(name).Field("text").Field(value);
  const std::span bytes(reinterpret_cast<const uint8_t*>(value.data()), value.size());
  factors_.push_back(
      {std::string(name), value.size() <= kMaxShownBytes ? std::string(value) : Shown(bytes)});
}

void KeyBuilder::AddNumber(std::string_view name, int64_t value) {
  hasher_.Field(name).Field("number").Number(value);
  factors_.push_back({std::string(name), std::to_string(value)});
}

void KeyBuilder::AddBytes(std::string_view name, std::span<const uint8_t> value) {
  hasher_.Field(name).Field("bytes").Field(
      {reinterpret_cast<const char*>(value.data()), value.size()});
  factors_.push_back({std::string(name), Shown(value)});
}

Digest KeyBuilder::digest() const {
  Hasher copy = hasher_;
  return copy.Finish();
}

}  // namespace hpu::client
