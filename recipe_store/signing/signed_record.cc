#include "recipe_store/signing/signed_record.h"

#include <algorithm>

#include "compile_service.pb.h"

namespace hpu::store {
namespace {

constexpr size_t kSignatureBytes = 64;
constexpr size_t kPublicKeyBytes = 32;

}  // namespace

Bytes EncodeSignedRecord(const SignedRecord& signed_record) {
  wire::SignedRecord message;
  message.set_record(ToString(signed_record.record));
  message.set_signature(ToString(signed_record.signature));
  message.set_public_key(ToString(signed_record.public_key));
  return ToBytes(message.SerializeAsString());
}

absl::StatusOr<SignedRecord> DecodeSignedRecord(std::span<const uint8_t> bytes) {
  wire::SignedRecord message;
  if (bytes.size() > kMaxStoredRecordBytes ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss("signed record of ", bytes.size(), " bytes cannot be parsed");
  }
  if (message.signature().size() != kSignatureBytes ||
      message.public_key().size() != kPublicKeyBytes) {
    return DataLoss("signed record has a signature of ", message.signature().size(),
                    " and a public key of ", message.public_key().size(),
                    " bytes instead of 64 and 32");
  }
  return SignedRecord{ToBytes(message.record()), ToBytes(message.signature()),
                      ToBytes(message.public_key())};
}

absl::StatusOr<Digest> ReadDigest(const std::string& text, const std::string& field) {
  Digest digest;
  if (text.size() != digest.size()) {
    return DataLoss(field, " has ", text.size(), " bytes; a digest has 32");
  }
  std::ranges::copy(text, digest.begin());
  return digest;
}

}  // namespace hpu::store
