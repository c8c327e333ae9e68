#include "backend/runtime/launch_history.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/runtime/bridge_log.h"

namespace hpu::runtime {
namespace {

// The most purposes that a message names.
constexpr size_t kMostNamed = 8;

struct Texts {
  std::mutex mutex;
  std::deque<std::string> texts{""};  // by number
  std::unordered_map<std::string_view, uint32_t> numbers{{"", 0}};
};

bool FromEnvironment() {
  const char* value = std::getenv("PT_HPU_SOURCE_LINES");
  return value != nullptr && ParseBool(value);
}

std::atomic<bool>& SourceLines() {
  static std::atomic<bool> wanted{FromEnvironment()};
  return wanted;
}

Texts& GetTexts() {
  static auto* texts = new Texts;
  return *texts;
}

}  // namespace

bool WantsSourceLines() { return SourceLines().load(std::memory_order_relaxed); }
void ReloadSourceLines() { SourceLines() = FromEnvironment(); }

uint32_t NumberOfText(std::string_view text) {
  Texts& all = GetTexts();
  const std::lock_guard lock(all.mutex);
  const auto found = all.numbers.find(text);
  if (found != all.numbers.end()) return found->second;
  const auto number = static_cast<uint32_t>(all.texts.size());
  all.numbers.emplace(all.texts.emplace_back(text), number);
  return number;
}

std::string TextOfNumber(uint32_t number) {
  Texts& all = GetTexts();
  const std::lock_guard lock(all.mutex);
  return number < all.texts.size() ? all.texts[number] : std::string();
}

void LaunchHistory::Settle(uint64_t count) {
  uint64_t before = settled_.load(std::memory_order_relaxed);
  while (before < count &&
         !settled_.compare_exchange_weak(before, count, std::memory_order_relaxed)) {
  }
}

std::string LaunchHistory::Suspects(const std::string& failure) const {
  const uint64_t end = count();
  const uint64_t pending = end - std::min(end, settled_.load(std::memory_order_relaxed));
  const bool says_which = failure.find(" of stream 0x") != std::string::npos;
  std::vector<std::string> suspects;
  for (uint64_t place = end - std::min(pending, kKept); place < end; ++place) {
    std::ostringstream name;
    name << "(launch " << place + 1 << " of stream " << stream_ << ")";
    if (says_which && failure.find(name.str()) == std::string::npos) continue;
    std::string purpose = TextOfNumber(purposes_[place % kKept].load(std::memory_order_relaxed));
    if (std::ranges::find(suspects, purpose) == suspects.end()) {
      suspects.push_back(std::move(purpose));
    }
  }
  if (suspects.empty()) return "";
  std::string text = suspects.size() == 1 ? "it was queued by " : "it was queued by one of ";
  for (size_t i = 0; i < std::min(suspects.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + suspects[i];
  }
  if (suspects.size() > kMostNamed) {
    text += " and " + std::to_string(suspects.size() - kMostNamed) + " others";
  }
  text += "; launches since the last synchronization: " + std::to_string(pending);
  return WantsSourceLines() ? text : text + " (PT_HPU_SOURCE_LINES=1 adds the lines that called)";
}

}  // namespace hpu::runtime
