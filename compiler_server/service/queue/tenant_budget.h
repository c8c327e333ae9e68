// Compile seconds that each tenant may use: so many an hour, saved for an hour at most.
// Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

namespace hpu::server {

class TenantBudget {
 public:
  using Clock = std::chrono::steady_clock;

  // 0 = no limit.
  explicit TenantBudget(std::chrono::seconds per_hour) : per_hour_(per_hour) {}

  // Zero: the tenant may begin a compilation. Else the time after which it may.
  std::chrono::milliseconds Wait(const std::string& tenant, Clock::time_point now);
  // A compilation took so long; what that exceeds is paid back first.
  void Charge(const std::string& tenant, std::chrono::microseconds spent, Clock::time_point now);

 private:
  struct Account {
    double seconds = 0;  // left; negative: owed
    Clock::time_point at;
  };
  Account& Settled(const std::string& tenant, Clock::time_point now);  // mutex_ held

  const std::chrono::seconds per_hour_;
  std::mutex mutex_;
  std::map<std::string, Account> accounts_;  // guarded by mutex_
};

}  // namespace hpu::server
