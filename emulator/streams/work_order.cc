#include "emulator/streams/work_order.h"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace hpu::emulator {
namespace {

uint64_t At(const WorkOrder::Clock& clock, uint32_t stream) {
  return stream < clock.size() ? clock[stream] : 0;
}

void Join(const WorkOrder::Clock& other, WorkOrder::Clock* clock) {
  clock->resize(std::max(clock->size(), other.size()));
  for (size_t i = 0; i < other.size(); ++i) (*clock)[i] = std::max((*clock)[i], other[i]);
}

// The finaliser of splitmix64.
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

}  // namespace

uint32_t WorkOrder::AddStream() {
  std::lock_guard lock(mutex_);
  streams_.emplace_back(streams_.size() + 1);
  return static_cast<uint32_t>(streams_.size() - 1);
}

bool WorkOrder::IsBefore(const Touch& touch, const Clock& clock) const {
  return At(clock, touch.stream) >= touch.work;
}

const WorkOrder::Touch* WorkOrder::FindConflict(const Segment& segment, bool writes,
                                                uint32_t stream) const {
  const Clock& clock = streams_[stream];
  if (segment.writer.has_value() && !IsBefore(*segment.writer, clock)) return &*segment.writer;
  if (!writes) return nullptr;
  const auto found = std::ranges::find_if(
      segment.readers, [&](const Touch& reader) { return !IsBefore(reader, clock); });
  return found == segment.readers.end() ? nullptr : &*found;
}

void WorkOrder::SplitAt(uint64_t address) {
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return;
  const auto segment = std::prev(after);
  if (segment->first == address || segment->second.end <= address) return;
  segments_.emplace_hint(after, address, segment->second);
  segment->second.end = address;
}

void WorkOrder::Cover(uint64_t begin, uint64_t end) {
  SplitAt(begin);
  SplitAt(end);
  auto next = segments_.lower_bound(begin);
  while (begin < end) {
    const uint64_t gap_end = next == segments_.end() ? end : std::min(end, next->first);
    if (begin < gap_end) segments_.emplace_hint(next, begin, Segment{.end = gap_end});
    if (gap_end == end) return;
    begin = next->second.end;
    ++next;
  }
}

void WorkOrder::Note(const MemoryUse& use, const Touch& touch) {
  const uint64_t end = use.address + use.bytes;
  Cover(use.address, end);
  const auto first = segments_.lower_bound(use.address);
  const auto last = segments_.lower_bound(end);
  if (use.writes) {
    segments_.erase(std::next(first), last);
    first->second = {.end = end, .writer = touch};
    return;
  }
  for (auto segment = first; segment != last; ++segment) {
    std::vector<Touch>& readers = segment->second.readers;
    std::erase_if(readers, [&](const Touch& reader) { return reader.stream == touch.stream; });
    readers.push_back(touch);
  }
}

std::string WorkOrder::Add(uint32_t stream, const std::string& name,
                           std::span<const MemoryUse> uses) {
  std::lock_guard lock(mutex_);
  Clock& clock = streams_[stream];
  Join(host_, &clock);
  if (clock[stream] == 0) ++busy_streams_;
  const Touch touch{stream, ++clock[stream], std::make_shared<const std::string>(name)};
  std::string wrong;
  for (const MemoryUse& use : uses) {
    if (use.bytes == 0) continue;
    const uint64_t end = use.address + use.bytes;
    auto segment = segments_.upper_bound(use.address);
    if (segment != segments_.begin()) --segment;
    for (; segment != segments_.end() && segment->first < end && wrong.empty(); ++segment) {
      if (segment->second.end <= use.address) continue;
      const Touch* other = FindConflict(segment->second, use.writes, stream);
      if (other == nullptr) continue;
      const bool other_writes =
          segment->second.writer.has_value() && other == &*segment->second.writer;
      std::ostringstream text;
      text << name << " on stream " << stream << (use.writes ? " writes " : " reads ")
           << std::min(end, segment->second.end) - std::max(use.address, segment->first)
           << " bytes at 0x" << std::hex << std::max(use.address, segment->first) << std::dec
           << " that " << *other->name << " on stream " << other->stream
           << (other_writes ? " writes" : " reads")
           << ", and neither an event nor a synchronisation orders the two";
      wrong = text.str();
    }
  }
  for (const MemoryUse& use : uses) {
    if (use.bytes != 0) Note(use, touch);
  }
  if (segments_.size() > forget_at_) Forget();
  return wrong;
}

WorkOrder::Clock WorkOrder::Reached(uint32_t stream, uint64_t more) const {
  std::lock_guard lock(mutex_);
  Clock clock = streams_[stream];
  clock[stream] += more;
  return clock;
}

void WorkOrder::StreamWaits(uint32_t stream, const Clock& clock) {
  std::lock_guard lock(mutex_);
  Join(clock, &streams_[stream]);
}

void WorkOrder::HostWaited(const Clock& clock) {
  std::lock_guard lock(mutex_);
  Join(clock, &host_);
}

void WorkOrder::Forget() {
  const auto ended = [&](const Touch& touch) { return IsBefore(touch, host_); };
  std::erase_if(segments_, [&](const auto& entry) {
    const Segment& segment = entry.second;
    return (!segment.writer.has_value() || ended(*segment.writer)) &&
           std::ranges::all_of(segment.readers, ended);
  });
  forget_at_ = std::max<size_t>(4096, 2 * segments_.size());
}

std::chrono::microseconds WorkOrder::Delay(uint32_t stream, uint64_t work) const {
  {
    std::lock_guard lock(mutex_);
    if (busy_streams_ < 2) return std::chrono::microseconds{0};
  }
  const uint64_t random = Mix(Mix(seed_ + 1) ^ Mix((uint64_t{stream} + 1) << 40 | work));
  if (random % 2 == 0) return std::chrono::microseconds{0};
  return std::chrono::microseconds{(random >> 8) %
                                   static_cast<uint64_t>(kLongestDelay.count() + 1)};
}

}  // namespace hpu::emulator
