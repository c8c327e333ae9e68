#include "synapse/emulator/streams/copy_work.h"

#include <algorithm>
#include <cstring>

namespace hpu::emulator {

synStatus CopyWork::Run() {
  for (const CopyRange& range : ranges_) {
    std::memmove(reinterpret_cast<void*>(range.destination),
                 reinterpret_cast<const void*>(range.source), range.bytes);
    if (packs_ != nullptr) packs_->Drop(range.destination, range.bytes);
    Count(counters_->bytes_copied, range.bytes);
  }
  Count(counters_->copies, ranges_.size());
  return synSuccess;
}

synStatus FillWork::Run() {
  auto* bytes = reinterpret_cast<uint8_t*>(address_);
  const auto low_byte = static_cast<uint8_t>(value_);
  if (width_ == 1 || value_ == 0) {
    std::memset(bytes, low_byte, count_ * width_);
  } else if (width_ == 2) {
    auto* words = reinterpret_cast<uint16_t*>(bytes);
    std::fill(words, words + count_, static_cast<uint16_t>(value_));
  } else {
    auto* words = reinterpret_cast<uint32_t*>(bytes);
    std::fill(words, words + count_, value_);
  }
  packs_->Drop(address_, count_ * width_);
  return synSuccess;
}

}  // namespace hpu::emulator
