// A SignedRecord holds a manifest or an alias exactly as it was signed. Protobuf has no canonical
// form, so the bytes are kept and never rebuilt (docs/formats.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"

namespace hpu::store {

// The signature covers the kind, so an alias never passes for a manifest.
enum class RecordKind { kManifest, kAlias };

struct SignedRecord {
  Bytes record;
  Bytes signature;   // 64 bytes, Ed25519
  Bytes public_key;  // 32 bytes, of the signer

  bool operator==(const SignedRecord&) const = default;
};

inline constexpr size_t kMaxRecordBytes = 4 << 20;
// This bounds a record in the form that stores keep.
inline constexpr size_t kMaxStoredRecordBytes = kMaxRecordBytes + 1024;

// Returns the form in which a store keeps the record: a serialised hpu.wire.SignedRecord.
Bytes EncodeSignedRecord(const SignedRecord& signed_record);
// DATA_LOSS: the bytes are damaged, or have lengths that no signature has.
absl::StatusOr<SignedRecord> DecodeSignedRecord(std::span<const uint8_t> bytes);

// These convert between our types and the strings of protobuf messages.
inline Bytes ToBytes(const std::string& text) { return Bytes(text.begin(), text.end()); }
inline std::string ToString(std::span<const uint8_t> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}
// Returns DATA_LOSS unless `text` has 32 bytes. `field` names it ("manifest field graph_digest").
absl::StatusOr<Digest> ReadDigest(const std::string& text, const std::string& field);

}  // namespace hpu::store
