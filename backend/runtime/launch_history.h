// A stream remembers the purposes of its last launches. A launch that fails shows it only when its
// stream is waited for; the message then names the operator or program that queued it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace hpu::runtime {

// Returns the number of a text; equal texts have one number, and the empty one has 0. Texts are
// kept as long as the process lives. Thread-safe.
uint32_t NumberOfText(std::string_view text);
std::string TextOfNumber(uint32_t number);

// Returns whether PT_HPU_SOURCE_LINES asks for the line of the program that queues a launch.
bool WantsSourceLines();
// Reads the environment again (for tests).
void ReloadSourceLines();

// While it lives, launches of its thread are for what the text with this number says.
class LaunchPurpose {
 public:
  explicit LaunchPurpose(uint32_t text) : before_(present_) { present_ = text; }
  ~LaunchPurpose() { present_ = before_; }
  LaunchPurpose(const LaunchPurpose&) = delete;
  LaunchPurpose& operator=(const LaunchPurpose&) = delete;

  // Returns the number of the thread's text, or 0.
  static uint32_t Present() { return present_; }

 private:
  inline static thread_local uint32_t present_ = 0;
  const uint32_t before_;
};

// Thread-safe. It costs a launch two relaxed operations.
class LaunchHistory {
 public:
  // `stream` is the handle of the stream.
  explicit LaunchHistory(const void* stream) : stream_(stream) {}

  // Notes a launch for what the text with this number says.
  void Add(uint32_t purpose) {
    const uint64_t place = count_.fetch_add(1, std::memory_order_relaxed);
    purposes_[place % kKept].store(purpose, std::memory_order_relaxed);
  }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  // Says that the first `count` launches have ended.
  void Settle(uint64_t count);

  // Says which launches may have failed: those that `failure` names ("launch 3 of stream 0x1", as
  // the emulator does), or all that have not been settled if it names none of any stream. Returns
  // an empty text if there are none.
  std::string Suspects(const std::string& failure) const;

 private:
  static constexpr uint64_t kKept = 256;

  const void* const stream_;
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> settled_{0};
  std::array<std::atomic<uint32_t>, kKept> purposes_{};
};

}  // namespace hpu::runtime
