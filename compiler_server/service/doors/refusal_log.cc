#include "compiler_server/service/doors/refusal_log.h"

#include <utility>

namespace hpu::server {

std::optional<uint64_t> RefusalLog::Add(const std::string& address, const std::string& reason,
                                        Time now) {
  std::lock_guard<std::mutex> lock(mutex_);
  // A kind that was quiet for an interval is forgotten, unless it still has something to report.
  if (kinds_.size() >= kMaxKinds) {
    std::erase_if(kinds_, [&](const auto& known) {
      return now - known.second.last >= kInterval && known.second.left_out == 0;
    });
  }
  std::pair<std::string, std::string> name(address, reason);
  // All that find no place share the empty kind, which no address has.
  if (kinds_.size() >= kMaxKinds && !kinds_.contains(name)) name = {};
  const auto [found, is_new] = kinds_.try_emplace(std::move(name));
  Kind& kind = found->second;
  if (!is_new && now - kind.last < kInterval) {
    ++kind.left_out;
    return std::nullopt;
  }
  kind.last = now;
  return std::exchange(kind.left_out, 0);
}

std::string AddressOf(const std::string& peer) {
  // The forms are "ipv4:ADDRESS:PORT" and "ipv6:[ADDRESS]:PORT", with the brackets as "%5B" and
  // "%5D".
  const size_t colon = peer.rfind(':');
  return peer.starts_with("ip") && colon > 4 ? peer.substr(0, colon) : peer;
}

}  // namespace hpu::server
