// Measures what a launch costs the host: the call alone, and the call with a wait for its end.
//
//   launch_overhead [PATH_OF_LIBRARY] [--json]
//
// The graphs are one node on two tensors and one sum of 199 tensors. Each is launched with an
// unchanged table and with an output that alternates between two addresses. The result is the least
// time of many batches, so that other work of the machine counts little.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "synapse/loader.h"

namespace hpu {
namespace {

constexpr uint64_t kElements = 16;
constexpr int kBatches = 300;
constexpr int kLaunchesPerBatch = 20;

const SynapseFunctions* api = nullptr;

void Check(synStatus status, const char* call) {
  if (status == synSuccess) return;
  std::fprintf(stderr, "%s\n", ToText(ToStatus(*api, status, call)).c_str());
  std::exit(1);
}
#define CALL(function, ...) Check(api->function(__VA_ARGS__), #function)

synTensor MakeTensor(synGraphHandle graph, const std::string& name, bool persistent) {
  synTensor tensor = nullptr;
  CALL(synTensorHandleCreate, &tensor, graph, DATA_TENSOR, name.c_str());
  synTensorGeometry geometry{};
  geometry.dims = 1;
  geometry.sizes[0] = kElements;
  CALL(synTensorSetGeometry, tensor, &geometry, synGeometryMaxSizes);
  CALL(synTensorSetDeviceDataType, tensor, syn_type_float);
  if (persistent) {
    synSectionHandle section = nullptr;
    CALL(synSectionCreate, &section, 0, graph);
    CALL(synTensorAssignToSection, tensor, section, 0);
  }
  return tensor;
}

void MakeNode(synGraphHandle graph, const char* guid, std::vector<synTensor> inputs,
              synTensor output) {
  CALL(synNodeCreate, graph, inputs.data(), &output, static_cast<uint32_t>(inputs.size()), 1,
       nullptr, 0, guid, guid, nullptr, nullptr);
}

// y = relu(x), or y = x0 + x1 + ...
synRecipeHandle CompileSum(int num_inputs) {
  synGraphHandle graph = nullptr;
  CALL(synGraphCreate, &graph, synDeviceGaudi2);
  synTensor sum = MakeTensor(graph, "x0", true);
  const synTensor output = MakeTensor(graph, "y", true);
  if (num_inputs == 1) MakeNode(graph, "relu_fwd_f32", {sum}, output);
  for (int i = 1; i < num_inputs; ++i) {
    const synTensor input = MakeTensor(graph, "x" + std::to_string(i), true);
    const bool last = i + 1 == num_inputs;
    const synTensor next = last ? output : MakeTensor(graph, "s" + std::to_string(i), false);
    MakeNode(graph, "add_fwd_f32", {sum, input}, next);
    sum = next;
  }
  synRecipeHandle recipe = nullptr;
  CALL(synGraphCompile, &recipe, graph, "sum", nullptr);
  CALL(synGraphDestroy, graph);
  return recipe;
}

class Launcher {
 public:
  Launcher(synDeviceId device, synStreamHandle stream, synRecipeHandle recipe, uint32_t tensors)
      : stream_(stream), recipe_(recipe), table_(tensors) {
    std::vector<uint64_t> ids(tensors);
    CALL(synTensorRetrieveLaunchIds, recipe, ids.data(), tensors);
    for (uint32_t i = 0; i < tensors; ++i) {
      table_[i].tensorId = ids[i];
      synRetrievedLaunchTensorInfo info{};
      info.tensorId = ids[i];
      CALL(synTensorRetrieveLaunchInfoById, recipe, 1, &info);
      if (std::strcmp(info.tensorName, "y") == 0) output_ = i;
      table_[i].pTensorAddress = Allocate(device, kElements * 4);
    }
    outputs_[0] = table_[output_].pTensorAddress;
    outputs_[1] = Allocate(device, kElements * 4);
    uint64_t bytes = 0;
    CALL(synWorkspaceGetSize, &bytes, recipe);
    if (bytes != 0) workspace_ = Allocate(device, bytes);
  }

  // Returns the microseconds per launch, the least of all batches.
  double Measure(bool alternate, bool wait) {
    double best = 1e9;
    for (int batch = 0; batch < kBatches; ++batch) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kLaunchesPerBatch; ++i) {
        if (alternate) table_[output_].pTensorAddress = outputs_[i % 2];
        CALL(synLaunch, stream_, table_.data(), static_cast<uint32_t>(table_.size()), workspace_,
             recipe_, 0);
        if (wait) CALL(synStreamSynchronize, stream_);
      }
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - start;
      best = std::min(best, time.count() / kLaunchesPerBatch);
      CALL(synStreamSynchronize, stream_);
    }
    return best;
  }

 private:
  static uint64_t Allocate(synDeviceId device, uint64_t bytes) {
    uint64_t address = 0;
    CALL(synDeviceMalloc, device, bytes, 0, 0, &address);
    return address;
  }

  const synStreamHandle stream_;
  const synRecipeHandle recipe_;
  std::vector<synLaunchTensorInfo> table_;
  uint32_t output_ = 0;
  uint64_t outputs_[2] = {};
  uint64_t workspace_ = 0;
};

int Main(int argc, char** argv) {
  bool json = false;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (argv[i][0] == '-') {
      std::fprintf(stderr, "usage: launch_overhead [PATH_OF_LIBRARY] [--json]\n");
      return 2;
    } else {
      path = argv[i];
    }
  }
  const auto loaded = LoadSynapse(path);
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", ToText(loaded.status()).c_str());
    return 1;
  }
  api = *loaded;
  CALL(synInitialize);
  synDeviceId device = 0;
  CALL(synDeviceAcquireByDeviceType, &device, synDeviceTypeInvalid);
  synStreamHandle stream = nullptr;
  CALL(synStreamCreateGeneric, &stream, device, 0);
  for (const int inputs : {1, 199}) {
    const auto tensors = static_cast<uint32_t>(inputs + 1);
    Launcher launcher(device, stream, CompileSum(inputs), tensors);
    for (const bool alternate : {false, true}) {
      const double launch = launcher.Measure(alternate, false);
      const double waited = launcher.Measure(alternate, true);
      std::printf(json ? "{\"tensors\": %u, \"table\": \"%s\", \"launch_us\": %.3f, "
                         "\"launch_and_wait_us\": %.3f}\n"
                       : "%3u tensors, %-9s table: launch %7.3f us, launch and wait %7.3f us\n",
                  tensors, alternate ? "changing" : "unchanged", launch, waited);
    }
  }
  CALL(synDestroy);
  return 0;
}

}  // namespace
}  // namespace hpu

int main(int argc, char** argv) { return hpu::Main(argc, argv); }
