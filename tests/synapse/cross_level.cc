// Runs recipes of one machine on another: compiles for a level, or runs a recipe that another
// process compiled.
//
//   cross_level compile x86-64-v3 FILE     y = softmax(gelu(x w + b)), written as a recipe
//   cross_level run FILE                   launches it and compares with plain loops
//
// tests/synapse/cross_level.sh runs the second under an emulator of an older CPU.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "synapse/include/synapse_node_params.h"
#include "synapse/loader.h"

namespace {

// The sizes are odd, so that every kernel has tails.
constexpr uint64_t kRows = 13, kInner = 67, kColumns = 45;
constexpr double kTolerance = 2e-6;

const hpu::SynapseFunctions* api = nullptr;

void Require(synStatus status, const char* call) {
  if (status == synSuccess) return;
  char text[STATUS_DESCRIPTION_MAX_SIZE + 1] = "";
  api->synStatusGetBriefDescription(status, text, sizeof(text));
  std::fprintf(stderr, "%s failed: %d (%s)\n", call, static_cast<int>(status), text);
  std::exit(1);
}
#define CALL(name, ...) Require(api->name(__VA_ARGS__), #name)

synTensor MakeTensor(synGraphHandle graph, const char* name, uint64_t rows, uint64_t columns,
                     bool persistent) {
  synTensor tensor = nullptr;
  synTensorGeometry geometry = {};
  geometry.sizes[0] = columns;
  geometry.sizes[1] = rows;
  geometry.dims = 2;
  CALL(synTensorHandleCreate, &tensor, graph, DATA_TENSOR, name);
  CALL(synTensorSetGeometry, tensor, &geometry, synGeometryMaxSizes);
  CALL(synTensorSetDeviceDataType, tensor, syn_type_single);
  if (!persistent) return tensor;
  synSectionHandle section = nullptr;
  CALL(synSectionCreate, &section, 0, graph);
  CALL(synTensorAssignToSection, tensor, section, 0);
  return tensor;
}

void Compile(const char* level, const char* path) {
  CALL(synConfigurationSet, "EMULATOR_ISA_LEVEL", level);
  synGraphHandle graph = nullptr;
  CALL(synGraphCreate, &graph, synDeviceGaudi2);
  const synTensor x = MakeTensor(graph, "x", kRows, kInner, true);
  const synTensor w = MakeTensor(graph, "w", kInner, kColumns, true);
  const synTensor b = MakeTensor(graph, "b", 1, kColumns, true);
  synTensor product = MakeTensor(graph, "product", kRows, kColumns, false);
  synTensor sum = MakeTensor(graph, "sum", kRows, kColumns, false);
  synTensor gelu = MakeTensor(graph, "gelu", kRows, kColumns, false);
  synTensor y = MakeTensor(graph, "y", kRows, kColumns, true);
  const synGEMMParams gemm = {};
  const synTensor gemm_in[] = {x, w};
  const synTensor add_in[] = {product, b};
  const ns_Softmax_Params softmax = {0};
  CALL(synNodeCreate, graph, gemm_in, &product, 2, 1, &gemm, sizeof(gemm), "gemm", "gemm", nullptr,
       nullptr);
  CALL(synNodeCreate, graph, add_in, &sum, 2, 1, nullptr, 0, "add_fwd_f32", "add", nullptr,
       nullptr);
  CALL(synNodeCreate, graph, &sum, &gelu, 1, 1, nullptr, 0, "gelu_fwd_f32", "gelu", nullptr,
       nullptr);
  CALL(synNodeCreate, graph, &gelu, &y, 1, 1, &softmax, sizeof(softmax), "softmax_fwd_f32",
       "softmax", nullptr, nullptr);
  synRecipeHandle recipe = nullptr;
  CALL(synGraphCompile, &recipe, graph, "cross_level", nullptr);
  CALL(synRecipeSerialize, recipe, path);
}

struct Buffer {
  const char* name;
  std::vector<float> host;
  uint64_t device = 0;
};

std::vector<float> Values(uint64_t count, int seed) {
  std::vector<float> values;
  for (uint64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(static_cast<int>((i * 37 + seed * 11) % 101) - 50) / 64);
  }
  return values;
}

double LargestError(const std::vector<Buffer>& buffers) {
  const std::vector<float>& x = buffers[0].host;
  const std::vector<float>& w = buffers[1].host;
  const std::vector<float>& b = buffers[2].host;
  const std::vector<float>& y = buffers[3].host;
  double largest = 0;
  for (uint64_t row = 0; row < kRows; ++row) {
    std::vector<double> exponentials;
    double total = 0;
    for (uint64_t column = 0; column < kColumns; ++column) {
      double sum = b[column];
      for (uint64_t k = 0; k < kInner; ++k) {
        sum += static_cast<double>(x[row * kInner + k]) * w[k * kColumns + column];
      }
      exponentials.push_back(std::exp(0.5 * sum * std::erfc(-sum * M_SQRT1_2)));
      total += exponentials.back();
    }
    for (uint64_t column = 0; column < kColumns; ++column) {
      const double error = std::fabs(exponentials[column] / total - y[row * kColumns + column]);
      // A NaN counts as the largest error.
      if (!(error <= largest)) largest = error;
    }
  }
  return largest;
}

int Run(const char* path) {
  char level[64] = "";
  CALL(synEmulatorGetIsaLevel, level, sizeof(level));
  synDeviceId device = 0;
  CALL(synDeviceAcquireByDeviceType, &device, synDeviceGaudi2);
  synRecipeHandle recipe = nullptr;
  CALL(synRecipeDeSerialize, &recipe, path);
  char recipe_level[64] = "";
  CALL(synEmulatorRecipeGetIsaLevel, recipe, recipe_level, sizeof(recipe_level));
  synStreamHandle stream = nullptr;
  CALL(synStreamCreateGeneric, &stream, device, 0);
  std::vector<Buffer> buffers = {{"x", Values(kRows * kInner, 1)},
                                 {"w", Values(kInner * kColumns, 2)},
                                 {"b", Values(kColumns, 3)},
                                 {"y", std::vector<float>(kRows * kColumns, NAN)}};
  std::vector<synLaunchTensorInfo> tensors(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const uint64_t bytes = buffers[i].host.size() * sizeof(float);
    CALL(synDeviceMalloc, device, bytes, 0, 0, &buffers[i].device);
    CALL(synHostMap, device, bytes, buffers[i].host.data());
    CALL(synMemCopyAsync, stream, reinterpret_cast<uint64_t>(buffers[i].host.data()), bytes,
         buffers[i].device, HOST_TO_DRAM);
    tensors[i].tensorName = buffers[i].name;
    tensors[i].pTensorAddress = buffers[i].device;
    CALL(synTensorRetrieveIds, recipe, &tensors[i].tensorName, &tensors[i].tensorId, 1);
  }
  uint64_t workspace_bytes = 0;
  uint64_t workspace = 0;
  CALL(synWorkspaceGetSize, &workspace_bytes, recipe);
  if (workspace_bytes > 0) CALL(synDeviceMalloc, device, workspace_bytes, 0, 0, &workspace);
  const synStatus launched = api->synLaunch(
      stream, tensors.data(), static_cast<uint32_t>(tensors.size()), workspace, recipe, 0);
  if (launched != synSuccess) {
    std::fprintf(stderr, "recipe of %s refused on a host of %s\n", recipe_level, level);
    return 2;
  }
  Buffer& y = buffers.back();
  CALL(synMemCopyAsync, stream, y.device, y.host.size() * sizeof(float),
       reinterpret_cast<uint64_t>(y.host.data()), DRAM_TO_HOST);
  CALL(synStreamSynchronize, stream);
  const double error = LargestError(buffers);
  std::printf("recipe of %s on a host of %s: largest error %.2g\n", recipe_level, level, error);
  return error <= kTolerance ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (!(mode == "compile" && argc == 4) && !(mode == "run" && argc == 3)) {
    std::fprintf(stderr, "usage: cross_level compile LEVEL FILE | cross_level run FILE\n");
    return 64;
  }
  const auto functions = hpu::LoadSynapse();
  if (!functions.ok()) {
    std::fprintf(stderr, "%s\n", std::string(functions.status().message()).c_str());
    return 1;
  }
  api = *functions;
  CALL(synInitialize);
  if (mode == "run") return Run(argv[2]);
  Compile(argv[2], argv[3]);
  return 0;
}
