#include "compiler_server/service/admin/metrics_page.h"

#include <prometheus/metric_family.h>

#include <algorithm>

namespace hpu::server {
namespace {

// In seconds: a hit takes milliseconds, a compilation up to minutes.
const prometheus::Histogram::BucketBoundaries kBuckets = {
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 600};

// Figures that are a state and not a count of events.
constexpr std::string_view kGauges[] = {
    "compile.negative_entries",
    "compile.request_bytes",
    "compile.running",
    "compile.waiting",
    "memory.aliases",
    "memory.bytes",
    "memory.entries",
    "rocksdb.aliases",
    "rocksdb.blobs",
    "rocksdb.bytes",
    "rocksdb.damaged_at_start",
    "rocksdb.disk_bytes",
    "rocksdb.entries",
    "rocksdb.largest_share_bytes",
    "rocksdb.max_bytes",
    "server.configuration_refused",
    "server.uptime_seconds",
    "shared.waiting_writes",
    "store.key_kept",
    "store.persistent",
    "store.writable",
};
static_assert(std::ranges::is_sorted(kGauges));

bool IsGauge(const std::string& name) { return std::ranges::binary_search(kGauges, name); }

prometheus::MetricFamily FamilyOf(const std::string& name, uint64_t value) {
  prometheus::MetricFamily family;
  family.name = "hpu_" + name;
  std::ranges::replace(family.name, '.', '_');
  family.help = name + " of hpu-compile stats";
  prometheus::ClientMetric metric;
  if (IsGauge(name)) {
    family.type = prometheus::MetricType::Gauge;
    metric.gauge.value = static_cast<double>(value);
  } else {
    family.name += "_total";
    family.type = prometheus::MetricType::Counter;
    metric.counter.value = static_cast<double>(value);
  }
  family.metric.push_back(std::move(metric));
  return family;
}

// The build is the label of a constant, so that other figures can be grouped by it.
prometheus::MetricFamily BuildFamily(const std::string& build) {
  prometheus::MetricFamily family;
  family.name = "hpu_build_info";
  family.help = "always 1; the beginning of the compiler's build id is its label";
  family.type = prometheus::MetricType::Gauge;
  prometheus::ClientMetric metric;
  metric.label = {{"build", build}};
  metric.gauge.value = 1;
  family.metric.push_back(std::move(metric));
  return family;
}

// One figure for each option that names a certificate.
prometheus::MetricFamily ExpiryFamily(const std::map<std::string, int64_t>& expiries) {
  prometheus::MetricFamily family;
  family.name = "hpu_certificate_expiry_timestamp_seconds";
  family.help = "when the certificate that this option names expires";
  family.type = prometheus::MetricType::Gauge;
  for (const auto& [option, expiry] : expiries) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"option", option}};
    metric.gauge.value = static_cast<double>(expiry);
  }
  return family;
}

class FigurePage final : public prometheus::Collectable {
 public:
  FigurePage(std::string build, MetricsPage::Sources sources)
      : build_(std::move(build)), sources_(std::move(sources)) {}
  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families = {BuildFamily(build_)};
    for (const auto& [name, value] : sources_.counters()) {
      families.push_back(FamilyOf(name, value));
    }
    prometheus::MetricFamily expiries = ExpiryFamily(sources_.expiries());
    if (!expiries.metric.empty()) families.push_back(std::move(expiries));
    return families;
  }

 private:
  const std::string build_;
  const MetricsPage::Sources sources_;
};

std::string InLowerCase(absl::StatusCode code) {
  std::string text = absl::StatusCodeToString(code);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

ServerTimes::ServerTimes()
    : registry_(std::make_shared<prometheus::Registry>()),
      calls_(prometheus::BuildHistogram()
                 .Name("hpu_call_seconds")
                 .Help("how long calls took, by door, call and outcome")
                 .Register(*registry_)),
      compilations_(prometheus::BuildHistogram()
                        .Name("hpu_compile_seconds")
                        .Help("how long compile workers took for one graph, by outcome")
                        .Register(*registry_)) {
  // This exists from the start, because a rate sees the first compilation only if there was a zero
  // before it.
  compilations_.Add({{"code", InLowerCase(absl::StatusCode::kOk)}}, kBuckets);
}

void ServerTimes::AddCall(const std::string& door, const std::string& call, absl::StatusCode code,
                          std::chrono::steady_clock::duration time) {
  calls_.Add({{"door", door}, {"call", call}, {"code", InLowerCase(code)}}, kBuckets)
      .Observe(std::chrono::duration<double>(time).count());
}

void ServerTimes::AddCompilation(absl::StatusCode code, std::chrono::steady_clock::duration time) {
  compilations_.Add({{"code", InLowerCase(code)}}, kBuckets)
      .Observe(std::chrono::duration<double>(time).count());
}

absl::StatusOr<std::unique_ptr<MetricsPage>> MetricsPage::Open(const std::string& address,
                                                               const std::string& build_id,
                                                               Sources sources,
                                                               const ServerTimes& times) {
  auto page = std::make_shared<FigurePage>(build_id.substr(0, 16), std::move(sources));
  // The library throws an exception if it cannot listen.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address);
    exposer->RegisterCollectable(page);
    exposer->RegisterCollectable(times.collectable());
    return std::unique_ptr<MetricsPage>(new MetricsPage(std::move(exposer), std::move(page)));
  } catch (const std::exception& error) {
    return Error(absl::StatusCode::kUnavailable, "cannot show metrics at ", address, ": ",
                 error.what());
  }
}

}  // namespace hpu::server
