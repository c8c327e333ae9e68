#include "base/container.h"

#include <cstring>

#include "base/hash.h"

namespace hpu {

ByteWriter BeginContainer(const ContainerKind& kind) {
  ByteWriter out;
  out.PutRaw(kind.magic, sizeof(kind.magic));
  out.Put(kind.version);
  return out;
}

Bytes SealContainer(ByteWriter container) {
  const Digest digest = Sha256(container.bytes());
  container.PutRaw(digest.data(), digest.size());
  return container.Take();
}

absl::StatusOr<std::span<const uint8_t>> OpenContainer(const ContainerKind& kind,
                                                       std::span<const uint8_t> bytes) {
  if (bytes.size() < kContainerHead + sizeof(Digest)) {
    return DataLoss(kind.name, " of ", bytes.size(), " bytes");
  }
  if (std::memcmp(bytes.data(), kind.magic, sizeof(kind.magic)) != 0) {
    return DataLoss("these bytes are not a ", kind.name);
  }
  uint32_t version = 0;
  std::memcpy(&version, bytes.data() + sizeof(kind.magic), sizeof(version));
  if (version != kind.version) {
    return Unimplemented(kind.name, " version ", version, ", this build reads ", kind.version);
  }
  const auto covered = bytes.first(bytes.size() - sizeof(Digest));
  const Digest digest = Sha256(covered);
  if (std::memcmp(digest.data(), bytes.data() + covered.size(), digest.size()) != 0) {
    return DataLoss(kind.name, " checksum does not match");
  }
  return covered.subspan(kContainerHead);
}

}  // namespace hpu
