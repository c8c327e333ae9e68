// relu(x * w + b) with the Synapse C API alone: builds the graph, compiles it, writes the recipe to
// a file, reads it back, launches it and checks the numbers.
//
//   synapse_c_example [path of libSynapse.so]     default: libSynapse.so by the linker's search
//
// Runs on the emulated Gaudi and on a real one.
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "synapse/include/synapse_api.h"
#include "synapse/include/synapse_node_params.h"

enum { kRows = 4, kInner = 64, kColumns = 32 };

// The functions used here, resolved by name.
// clang-format off: it does not settle on one form of this list
#define FUNCTIONS(X) \
  X(synInitialize) X(synDestroy) X(synDeviceAcquireByDeviceType) X(synDeviceRelease) \
  X(synDeviceGetName) X(synDeviceMalloc) X(synHostMalloc) X(synMemCopyAsync) \
  X(synStreamCreateGeneric) X(synStreamSynchronize) X(synGraphCreate) X(synGraphDestroy) \
  X(synGraphCompile) X(synTensorHandleCreate) X(synTensorSetGeometry) \
  X(synTensorSetDeviceDataType) X(synTensorAssignToSection) X(synSectionCreate) \
  X(synNodeCreate) X(synRecipeSerialize) X(synRecipeDeSerialize) X(synRecipeDestroy) \
  X(synWorkspaceGetSize) X(synTensorRetrieveIds) X(synLaunch) X(synDeviceGetAttribute) \
  X(synStatusGetBriefDescription)
// clang-format on
#define DECLARE(name) static __typeof__(&name) p_##name;
FUNCTIONS(DECLARE)

static void Check(synStatus status, const char* call) {
  if (status == synSuccess) return;
  char text[STATUS_DESCRIPTION_MAX_SIZE + 1] = "";
  p_synStatusGetBriefDescription(status, text, sizeof(text));
  fprintf(stderr, "%s failed: %d (%s)\n", call, (int)status, text);
  exit(1);
}
#define CALL(name, ...) Check(p_##name(__VA_ARGS__), #name)

static void LoadFunctions(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "cannot open %s: %s\n", path, dlerror());
    exit(1);
  }
#define RESOLVE(name)                                        \
  *(void**)&p_##name = dlsym(library, #name);                \
  if (p_##name == NULL) {                                    \
    fprintf(stderr, "%s has no function " #name "\n", path); \
    exit(1);                                                 \
  }
  FUNCTIONS(RESOLVE)
}

// A float tensor of `columns` x `rows` (FCD-first). Persistent tensors get a section of their own;
// the others live in the workspace.
static synTensor MakeTensor(synGraphHandle graph, const char* name, uint64_t columns, uint64_t rows,
                            bool persistent) {
  synTensor tensor = NULL;
  synTensorGeometry geometry = {.sizes = {columns, rows}, .dims = 2};
  CALL(synTensorHandleCreate, &tensor, graph, DATA_TENSOR, name);
  CALL(synTensorSetGeometry, tensor, &geometry, synGeometryMaxSizes);
  CALL(synTensorSetDeviceDataType, tensor, syn_type_single);
  if (persistent) {
    synSectionHandle section = NULL;
    CALL(synSectionCreate, &section, 0, graph);
    CALL(synTensorAssignToSection, tensor, section, 0);
  }
  return tensor;
}

static synRecipeHandle Compile(synDeviceType type) {
  synGraphHandle graph = NULL;
  CALL(synGraphCreate, &graph, type);
  synTensor x = MakeTensor(graph, "x", kInner, kRows, true);
  synTensor w = MakeTensor(graph, "w", kColumns, kInner, true);
  synTensor b = MakeTensor(graph, "b", kColumns, 1, true);
  synTensor product = MakeTensor(graph, "product", kColumns, kRows, false);
  synTensor sum = MakeTensor(graph, "sum", kColumns, kRows, false);
  synTensor y = MakeTensor(graph, "y", kColumns, kRows, true);
  const synGEMMParams gemm = {0, 0};
  const synTensor gemm_in[] = {x, w};
  const synTensor add_in[] = {product, b};
  CALL(synNodeCreate, graph, gemm_in, &product, 2, 1, &gemm, sizeof(gemm), "gemm", "gemm", NULL,
       NULL);
  CALL(synNodeCreate, graph, add_in, &sum, 2, 1, NULL, 0, "add_fwd_f32", "add", NULL, NULL);
  CALL(synNodeCreate, graph, &sum, &y, 1, 1, NULL, 0, "relu_fwd_f32", "relu", NULL, NULL);
  synRecipeHandle recipe = NULL;
  CALL(synGraphCompile, &recipe, graph, "relu_x_w_b", NULL);
  CALL(synGraphDestroy, graph);
  return recipe;
}

// The recipe goes through a file, as a second process would get it.
static synRecipeHandle StoreAndLoad(synRecipeHandle recipe) {
  const char* path = "synapse_c_example.recipe";
  CALL(synRecipeSerialize, recipe, path);
  CALL(synRecipeDestroy, recipe);
  CALL(synRecipeDeSerialize, &recipe, path);
  remove(path);
  return recipe;
}

struct Buffer {
  const char* name;
  uint64_t count;
  float* host;
  uint64_t device;
};

static void Copy(synStreamHandle stream, const struct Buffer* buffer, synDmaDir direction) {
  const uint64_t host = (uint64_t)buffer->host;
  const bool up = direction == HOST_TO_DRAM;
  CALL(synMemCopyAsync, stream, up ? host : buffer->device, buffer->count * sizeof(float),
       up ? buffer->device : host, direction);
}

static double LargestError(const struct Buffer* x, const struct Buffer* w, const struct Buffer* b,
                           const struct Buffer* y) {
  double largest = 0;
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      double expected = b->host[column];
      for (int k = 0; k < kInner; ++k) {
        expected += (double)x->host[row * kInner + k] * w->host[k * kColumns + column];
      }
      if (expected < 0) expected = 0;
      largest = fmax(largest, fabs(expected - y->host[row * kColumns + column]));
    }
  }
  return largest;
}

int main(int argc, char** argv) {
  LoadFunctions(argc > 1 ? argv[1] : "libSynapse.so");
  CALL(synInitialize);
  synDeviceId device = 0;
  CALL(synDeviceAcquireByDeviceType, &device, synDeviceTypeInvalid);
  char name[32];
  CALL(synDeviceGetName, name, sizeof(name), device);
  uint64_t type = 0;
  const synDeviceAttribute attribute = DEVICE_ATTRIBUTE_DEVICE_TYPE;
  CALL(synDeviceGetAttribute, &type, &attribute, 1, device);
  synRecipeHandle recipe = StoreAndLoad(Compile((synDeviceType)type));

  struct Buffer buffers[] = {{"x", kRows * kInner, NULL, 0},
                             {"w", kInner * kColumns, NULL, 0},
                             {"b", kColumns, NULL, 0},
                             {"y", kRows * kColumns, NULL, 0}};
  synStreamHandle stream = NULL;
  CALL(synStreamCreateGeneric, &stream, device, 0);
  synLaunchTensorInfo table[4] = {0};
  for (int i = 0; i < 4; ++i) {
    struct Buffer* buffer = &buffers[i];
    void* host = NULL;
    CALL(synHostMalloc, device, buffer->count * sizeof(float), 0, &host);
    CALL(synDeviceMalloc, device, buffer->count * sizeof(float), 0, 0, &buffer->device);
    buffer->host = host;
    for (uint64_t k = 0; k < buffer->count; ++k) {
      buffer->host[k] = (float)((int)(k * 37 + (uint64_t)i * 11) % 19 - 9) / 8;
    }
    CALL(synTensorRetrieveIds, recipe, &buffer->name, &table[i].tensorId, 1);
    table[i].tensorName = buffer->name;
    table[i].tensorType = DATA_TENSOR;
    table[i].pTensorAddress = buffer->device;
    if (i < 3) Copy(stream, buffer, HOST_TO_DRAM);
  }
  uint64_t workspace_bytes = 0;
  uint64_t workspace = 0;
  CALL(synWorkspaceGetSize, &workspace_bytes, recipe);
  if (workspace_bytes != 0) CALL(synDeviceMalloc, device, workspace_bytes, 0, 0, &workspace);
  CALL(synLaunch, stream, table, 4, workspace, recipe, 0);
  Copy(stream, &buffers[3], DRAM_TO_HOST);
  CALL(synStreamSynchronize, stream);

  const double error = LargestError(&buffers[0], &buffers[1], &buffers[2], &buffers[3]);
  printf("relu(x * w + b) on %s: y[0] = %g, %g, %g ... largest error %.2g\n", name,
         buffers[3].host[0], buffers[3].host[1], buffers[3].host[2], error);
  CALL(synRecipeDestroy, recipe);
  CALL(synDeviceRelease, device);
  CALL(synDestroy);
  return error < 1e-3 ? 0 : 1;
}
