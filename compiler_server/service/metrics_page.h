// The server's figures for Prometheus: every counter of GetStats, and how long calls took, at
// http://HOST:PORT/metrics. Names: "compile.compiled" is hpu_compile_compiled_total; what can
// also fall is a gauge and has no "_total".
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"

namespace hpu::server {

// Latencies of calls by door, call and outcome (a canonical code in lower case). Thread-safe.
class CallTimes {
 public:
  CallTimes();

  void Add(const std::string& door, const std::string& call, absl::StatusCode code,
           std::chrono::steady_clock::duration time);

  std::shared_ptr<prometheus::Collectable> collectable() const { return registry_; }

 private:
  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Histogram>& times_;
};

class MetricsPage {
 public:
  using Counters = std::function<std::map<std::string, uint64_t>()>;

  // Listens at HOST:PORT until it is destroyed; `counters` is called by its threads until then.
  // The first 16 characters of the build id are shown as hpu_build_info{build="..."}.
  // UNAVAILABLE: the address is taken or not this host's.
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Open(const std::string& address,
                                                           const std::string& build_id,
                                                           Counters counters,
                                                           const CallTimes& times);

 private:
  MetricsPage(std::unique_ptr<prometheus::Exposer> exposer,
              std::shared_ptr<prometheus::Collectable> counters)
      : counters_(std::move(counters)), exposer_(std::move(exposer)) {}

  const std::shared_ptr<prometheus::Collectable> counters_;
  const std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace hpu::server
