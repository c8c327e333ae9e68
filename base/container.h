// The frame around our own containers (graph, program, recipe): magic, u32 version, body, and the
// SHA-256 of everything before it, all little endian. The checksum finds damage; signatures say who
// made a container.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace hpu {

struct ContainerKind {
  char magic[8];
  uint32_t version;
  std::string_view name;  // "program", for messages
};

// Bytes of a container begin with its head; the body follows at kContainerHead.
inline constexpr size_t kContainerHead = 12;

// BeginContainer returns a writer that holds the head; put the body, then call SealContainer.
ByteWriter BeginContainer(const ContainerKind& kind);
Bytes SealContainer(ByteWriter container);

// Returns the body. DATA_LOSS: foreign or damaged bytes. UNIMPLEMENTED: another version.
absl::StatusOr<std::span<const uint8_t>> OpenContainer(const ContainerKind& kind,
                                                       std::span<const uint8_t> bytes);

}  // namespace hpu
