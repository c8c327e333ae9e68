// Life cycle, configuration, errors (reference 1.3, 4.1).
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulator/api/entry.h"
#include "synapse/include/synapse_api.h"

using namespace hpu::emulator;  // NOLINT: the C functions are the outer side of this namespace

namespace {

// The release that the metadata of habana-torch-plugin names, followed by the emulator's own
// number. Programs compare the two and warn where they differ.
constexpr char kLibraryVersion[] = "1.24.1.1";

synStatus CopyTruncated(const std::string& text, char* buffer, uint64_t size) {
  SYN_REQUIRE_ARGUMENT(buffer != nullptr && size > 0);
  const size_t length = std::min<uint64_t>(text.size(), size - 1);
  std::memcpy(buffer, text.data(), length);
  buffer[length] = '\0';
  return synSuccess;
}

}  // namespace

synStatus synInitialize() {
  return CallAnyTime([] { return Library::Get().Initialize(); });
}

synStatus synDestroy() {
  return Call([] { return Library::Get().Destroy(); });
}

synStatus synDriverGetVersion(char* buffer, int length) {
  return CallAnyTime([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(length > 0);
    return CopyTruncated(kLibraryVersion, buffer, static_cast<uint64_t>(length));
  });
}

synStatus synConfigurationSet(const char* name, const char* value) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(name != nullptr && value != nullptr);
    Library& library = Library::Get();
    if (std::strcmp(name, "HPU_EMULATOR_FAULTS") == 0) {
      const absl::Status faults = library.faults().Configure(value);
      if (!faults.ok()) return Fail(synInvalidArgument, faults.message());
    }
    if (std::strcmp(name, "EMULATOR_STRICT") == 0 && library.device() != nullptr) {
      return Fail(synInvalidArgument, name, " cannot change while a device is acquired");
    }
    const absl::Status status = library.configuration().Set(name, value);
    return status.ok() ? synSuccess : Fail(synInvalidArgument, status.message());
  });
}

synStatus synConfigurationGet(const char* name, char* value, uint64_t size) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(name != nullptr && value != nullptr);
    const absl::StatusOr<std::string> text = Library::Get().configuration().Get(name);
    if (!text.ok()) return Fail(synInvalidArgument, text.status().message());
    if (text->size() + 1 > size) {
      return Fail(synInvalidArgument, "the value of ", name, " needs ", text->size() + 1, " bytes");
    }
    return CopyTruncated(*text, value, size);
  });
}

synStatus synStatusGetBriefDescription(synStatus status, char* buffer, size_t length) {
  return CallAnyTime([&]() -> synStatus {
    const char* text = StatusText(status);
    if (text == nullptr) return Fail(synFail, "no status has the number ", status);
    return CopyTruncated(text, buffer, length);
  });
}

synStatus synDumpStateAndTerminate(const char* message, uint64_t /*flags*/) {
  return CallAnyTime([&]() -> synStatus {
    Library& library = Library::Get();
    const std::shared_ptr<Device> device = library.initialized() ? library.device() : nullptr;
    if (device == nullptr) return synSuccess;
    std::fprintf(stderr, "synapse emulator: terminated: %s\ndevice memory: %llu of %llu free\n%s\n",
                 message == nullptr ? "" : message,
                 static_cast<unsigned long long>(device->memory().free_bytes()),
                 static_cast<unsigned long long>(device->memory().total_bytes()),
                 library.counters().ToJson().c_str());
    std::abort();
  });
}

synStatus synUpdateMemoryConsumption(uint64_t /*bytes*/, uint64_t /*seconds*/) {
  return Call([] { return synSuccess; });
}

synStatus synGetLastError() { return ThreadLastError().status; }

const char* synGetErrorString(synStatus status) {
  const char* text = StatusText(status);
  return text != nullptr ? text : "unknown status";
}

const char* synGetLastErrorMessage() {
  const LastError& last = ThreadLastError();
  return last.has_message ? last.message.c_str() : nullptr;
}

synStatus synErrorGetStatus(synErrorHandle error, synStatus* status) {
  return Call([&]() -> synStatus {
    const std::shared_ptr<ErrorObject> object = Library::Get().errors().Find(error);
    SYN_REQUIRE_ARGUMENT(object != nullptr && status != nullptr);
    *status = object->status;
    return synSuccess;
  });
}

synStatus synErrorGetMessageLength(synErrorHandle error, size_t* length) {
  return Call([&]() -> synStatus {
    const std::shared_ptr<ErrorObject> object = Library::Get().errors().Find(error);
    SYN_REQUIRE_ARGUMENT(object != nullptr && length != nullptr);
    *length = object->message.size();
    return synSuccess;
  });
}

synStatus synErrorGetMessage(synErrorHandle error, char* message, size_t length) {
  return Call([&]() -> synStatus {
    const std::shared_ptr<ErrorObject> object = Library::Get().errors().Find(error);
    SYN_REQUIRE_ARGUMENT(object != nullptr && message != nullptr);
    const size_t copied = std::min(length, object->message.size());
    std::memcpy(message, object->message.data(), copied);
    if (copied < length) message[copied] = '\0';
    return synSuccess;
  });
}

synStatus synErrorDestroy(synErrorHandle error) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(Library::Get().errors().Remove(error) != nullptr);
    return synSuccess;
  });
}

synStatus synTPCLibraryGetVersionSize(uint32_t* size) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(size != nullptr);
    *size = 1;
    return synSuccess;
  });
}

synStatus synTPCLibraryGetVersions(const char** paths, uint32_t* versions) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(paths != nullptr && versions != nullptr);
    paths[0] = "libSynapseCompiler.so";  // this library generates every kernel
    versions[0] = hpu::kRecipeVersion;
    return synSuccess;
  });
}
