#include "compiler_server/service/queue/tenant_budget.h"

#include <algorithm>
#include <cmath>

namespace hpu::server {
namespace {

constexpr double kHour = 3600;

}  // namespace

TenantBudget::Account& TenantBudget::Settled(const std::string& tenant, Clock::time_point now) {
  const auto hourly = static_cast<double>(per_hour_.count());
  const auto [found, is_new] = accounts_.try_emplace(tenant, Account{hourly, now});
  Account& account = found->second;
  const double passed = std::chrono::duration<double>(now - account.at).count();
  account.seconds = std::min(hourly, account.seconds + passed * hourly / kHour);
  account.at = now;
  return account;
}

std::chrono::milliseconds TenantBudget::Wait(const std::string& tenant, Clock::time_point now) {
  if (per_hour_.count() == 0) return std::chrono::milliseconds(0);
  std::lock_guard<std::mutex> lock(mutex_);
  const double left = Settled(tenant, now).seconds;
  if (left > 0) return std::chrono::milliseconds(0);
  const double seconds = -left * kHour / static_cast<double>(per_hour_.count());
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)) + 1);
}

void TenantBudget::Charge(const std::string& tenant, std::chrono::microseconds spent,
                          Clock::time_point now) {
  if (per_hour_.count() == 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  Settled(tenant, now).seconds -= std::chrono::duration<double>(spent).count();
}

}  // namespace hpu::server
