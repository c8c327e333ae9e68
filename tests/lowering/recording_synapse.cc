#include "tests/lowering/recording_synapse.h"

#include <cstring>
#include <map>
#include <sstream>

#include "base/hash.h"

namespace hpu::testing {
namespace {

struct Recorder {
  std::ostringstream calls;
  std::map<const void*, std::string> names;  // names of handles
  uintptr_t next_handle = 1;
  int sections = 0;
  uint64_t nodes = 0;
};

Recorder& Get() {
  static Recorder* recorder = new Recorder;
  return *recorder;
}

template <typename Handle>
Handle NewHandle(const std::string& name) {
  Recorder& recorder = Get();
  const auto handle = reinterpret_cast<Handle>(recorder.next_handle++);
  recorder.names[handle] = name;
  return handle;
}

std::string NameOf(const void* handle) {
  return handle == nullptr ? "null" : Get().names.at(handle);
}

std::string TypeName(synDataType type) {
  switch (type) {
    case syn_type_single:
      return "single";
    case syn_type_bf16:
      return "bf16";
    case syn_type_fp16:
      return "fp16";
    case syn_type_int8:
      return "int8";
    case syn_type_uint8:
      return "uint8";
    case syn_type_int16:
      return "int16";
    case syn_type_int32:
      return "int32";
    case syn_type_int64:
      return "int64";
    default:
      return std::to_string(static_cast<int>(type));
  }
}

template <typename Each>
std::string Joined(uint32_t count, Each each) {
  std::string text;
  for (uint32_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + each(i);
  return "[" + text + "]";
}

// Runs of zero words are shortened, so that parameter structs stay readable.
std::string WordsOf(const void* data, unsigned size) {
  std::ostringstream text;
  const auto* bytes = static_cast<const uint8_t*>(data);
  unsigned zeros = 0;
  const auto flush = [&] {
    if (zeros > 2) {
      text << " 0*" << zeros;
    } else {
      for (unsigned i = 0; i < zeros; ++i) text << " 0";
    }
    zeros = 0;
  };
  for (unsigned at = 0; at < size; at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, bytes + at, std::min(4U, size - at));
    if (word == 0) {
      ++zeros;
      continue;
    }
    flush();
    text << " 0x" << std::hex << word << std::dec;
  }
  flush();
  return "{" + std::to_string(size) + ":" + text.str() + "}";
}

synStatus RecordNode(synGraphHandle, const synTensor* inputs, const synTensor* outputs,
                     uint32_t num_inputs, uint32_t num_outputs, const void* params,
                     unsigned params_size, const char* guid, const char* name, synNodeId* id,
                     const char** in_layouts, const char** out_layouts) {
  *id = Get().nodes++;
  Get().calls << "synNodeCreateWithId n" << *id << " " << guid << " "
              << Joined(num_inputs, [&](uint32_t i) { return NameOf(inputs[i]); }) << " -> "
              << Joined(num_outputs, [&](uint32_t i) { return NameOf(outputs[i]); });
  if (params != nullptr) Get().calls << " " << WordsOf(params, params_size);
  const auto layout = [](const char** layouts) {
    return [layouts](uint32_t i) { return std::string(layouts[i] == nullptr ? "-" : layouts[i]); };
  };
  if (in_layouts != nullptr) {
    Get().calls << " " << Joined(num_inputs, layout(in_layouts)) << " -> "
                << Joined(num_outputs, layout(out_layouts));
  }
  Get().calls << " \"" << name << "\"\n";
  return synSuccess;
}

synStatus RecordConstant(synTensor tensor, void* data, uint64_t size, synDataType type, bool copy) {
  const Digest digest = Sha256({static_cast<const uint8_t*>(data), size});
  Get().calls << "synTensorSetHostPtr " << NameOf(tensor) << " " << size << " bytes "
              << (size <= 16 ? "0x" + ToHex({static_cast<const uint8_t*>(data), size})
                             : "sha256 " + ToHex(digest).substr(0, 16))
              << " " << TypeName(type) << (copy ? " copied" : "") << "\n";
  return synSuccess;
}

synStatus RecordDependency(synGraphHandle, const synNodeId* blocking, const synNodeId* blocked,
                           uint32_t num_blocking, uint32_t num_blocked) {
  const auto name = [](const synNodeId* ids) {
    return [ids](uint32_t i) { return "n" + std::to_string(ids[i]); };
  };
  Get().calls << "synNodeDependencySet " << Joined(num_blocked, name(blocked)) << " after "
              << Joined(num_blocking, name(blocking)) << "\n";
  return synSuccess;
}

void SetGraphCalls(SynapseFunctions& functions) {
  functions.synInitialize = [] { return synSuccess; };
  functions.synGraphCreate = [](synGraphHandle* graph, synDeviceType type) {
    Get().nodes = 0;
    Get().sections = 0;
    *graph = NewHandle<synGraphHandle>("graph");
    Get().calls << "synGraphCreate " << static_cast<int>(type) << "\n";
    return synSuccess;
  };
  functions.synGraphSetAttribute = [](synGraphHandle, const synGraphAttribute* attributes,
                                      const uint64_t* values, uint32_t) {
    Get().calls << "synGraphSetAttribute " << static_cast<int>(*attributes) << " " << *values
                << "\n";
    return synSuccess;
  };
  functions.synGraphDestroy = [](synGraphHandle) { return synSuccess; };
  functions.synSectionCreate = [](synSectionHandle* section, uint64_t, synGraphHandle) {
    *section = NewHandle<synSectionHandle>("section" + std::to_string(Get().sections++));
    Get().calls << "synSectionCreate " << NameOf(*section) << "\n";
    return synSuccess;
  };
  functions.synSectionSetPersistent = [](synSectionHandle section, bool value) {
    Get().calls << "synSectionSetPersistent " << NameOf(section) << " " << value << "\n";
    return synSuccess;
  };
  functions.synSectionDestroy = [](synSectionHandle) { return synSuccess; };
  functions.synNodeCreateWithId = RecordNode;
  functions.synNodeDependencySet = RecordDependency;
  functions.synNodeSetDeterministic = [](synGraphHandle, synNodeId node, bool value) {
    Get().calls << "synNodeSetDeterministic n" << node << " " << value << "\n";
    return synSuccess;
  };
}

void SetTensorCalls(SynapseFunctions& functions) {
  functions.synTensorHandleCreate = [](synTensor* tensor, synGraphHandle, synTensorType type,
                                       const char* name) {
    *tensor = NewHandle<synTensor>(name);
    Get().calls << "synTensorHandleCreate " << name << " type " << static_cast<int>(type) << "\n";
    return synSuccess;
  };
  functions.synTensorSetGeometry = [](synTensor tensor, const synTensorGeometry* geometry,
                                      synGeometryType kind) {
    Get().calls << "synTensorSetGeometry " << NameOf(tensor) << " kind " << static_cast<int>(kind)
                << " "
                << Joined(geometry->dims,
                          [&](uint32_t i) { return std::to_string(geometry->sizes[i]); })
                << "\n";
    return synSuccess;
  };
  functions.synTensorSetDeviceDataType = [](synTensor tensor, synDataType type) {
    Get().calls << "synTensorSetDeviceDataType " << NameOf(tensor) << " " << TypeName(type) << "\n";
    return synSuccess;
  };
  functions.synTensorAssignToSection = [](synTensor tensor, synSectionHandle section,
                                          uint64_t offset) {
    Get().calls << "synTensorAssignToSection " << NameOf(tensor) << " " << NameOf(section) << " + "
                << offset << "\n";
    return synSuccess;
  };
  functions.synTensorSetHostPtr = RecordConstant;
}

}  // namespace

const SynapseFunctions& RecordingSynapse() {
  static const SynapseFunctions* functions = [] {
    auto* table = new SynapseFunctions;
    SetGraphCalls(*table);
    SetTensorCalls(*table);
    return table;
  }();
  return *functions;
}

std::string TakeRecordedCalls() {
  Recorder& recorder = Get();
  std::string calls = recorder.calls.str();
  recorder.calls.str("");
  recorder.names.clear();
  return calls;
}

}  // namespace hpu::testing
