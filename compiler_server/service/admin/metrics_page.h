// Shows the server's figures to Prometheus at http://HOST:PORT/metrics: every counter of GetStats,
// how long calls and compilations took, and when certificates expire. "compile.compiled" becomes
// hpu_compile_compiled_total; a figure that can also fall is a gauge and has no "_total".
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

// Histograms of how long things took, by outcome (a canonical code in lower case). Thread-safe.
class ServerTimes {
 public:
  ServerTimes();

  void AddCall(const std::string& door, const std::string& call, absl::StatusCode code,
               std::chrono::steady_clock::duration time);
  // The time of one graph in a compile worker of this server, without the wait for the worker.
  void AddCompilation(absl::StatusCode code, std::chrono::steady_clock::duration time);

  std::shared_ptr<prometheus::Collectable> collectable() const { return registry_; }

 private:
  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Histogram>& calls_;
  prometheus::Family<prometheus::Histogram>& compilations_;
};

class MetricsPage {
 public:
  // Called by the page's threads.
  struct Sources {
    std::function<std::map<std::string, uint64_t>()> counters;
    std::function<std::map<std::string, int64_t>()> expiries;  // as Certificates::expiries
  };

  // Listens at HOST:PORT until it is destroyed, and calls `sources` until then. Shows the first 16
  // characters of the build id as hpu_build_info{build="..."}. Returns UNAVAILABLE if the address
  // is taken or is not one of this host.
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Open(const std::string& address,
                                                           const std::string& build_id,
                                                           Sources sources,
                                                           const ServerTimes& times);

 private:
  MetricsPage(std::unique_ptr<prometheus::Exposer> exposer,
              std::shared_ptr<prometheus::Collectable> figures)
      : figures_(std::move(figures)), exposer_(std::move(exposer)) {}

  const std::shared_ptr<prometheus::Collectable> figures_;
  const std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace hpu::server
