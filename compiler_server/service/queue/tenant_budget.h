// The compile seconds that each tenant may use: a number per hour, which can be saved for an hour
// at most. Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

namespace hpu::server {

class TenantBudget {
 public:
  using Clock = std::chrono::steady_clock;

  // A value of 0 means no limit.
  explicit TenantBudget(std::chrono::seconds per_hour) : per_hour_(per_hour) {}

  // Returns zero if the tenant may begin a compilation, and otherwise the time after which it may.
  std::chrono::milliseconds Wait(const std::string& tenant, Clock::time_point now);
  // Records the time of a compilation. The tenant must make up for what exceeds its budget before
  // it may compile again.
  void Charge(const std::string& tenant, std::chrono::microseconds spent, Clock::time_point now);

 private:
  struct Account {
    double seconds = 0;  // what is left; negative if the tenant owes time
    Clock::time_point at;
  };
  Account& Settled(const std::string& tenant, Clock::time_point now);  // callers hold mutex_

  const std::chrono::seconds per_hour_;
  std::mutex mutex_;
  std::map<std::string, Account> accounts_;  // guarded by mutex_
};

}  // namespace hpu::server
