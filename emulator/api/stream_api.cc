// Streams and events (reference 1.6, 4.4).
#include "emulator/api/entry.h"
#include "synapse/include/synapse_api.h"

using namespace hpu::emulator;  // NOLINT

namespace {

// `body` is a synStatus(Device&, const std::shared_ptr<Stream>&).
template <typename Body>
synStatus StreamCall(synStreamHandle handle, Body&& body) {
  return DeviceCall([&](Device& device) -> synStatus {
    const std::shared_ptr<Stream> stream = device.streams().Find(handle);
    if (stream == nullptr) return Fail(synInvalidArgument, "this is not a stream of the device");
    return body(device, stream);
  });
}

std::shared_ptr<Event> FindEvent(Device& device, synEventHandle handle, synStatus* status) {
  std::shared_ptr<Event> event = device.events().Find(handle);
  if (event == nullptr) {
    *status = Fail(synInvalidEventHandle, "this is not an event of the device");
  }
  return event;
}

// `body` is a synStatus(Device&, Event&).
template <typename Body>
synStatus EventCall(synEventHandle handle, Body&& body) {
  return DeviceCall([&](Device& device) -> synStatus {
    synStatus status = synSuccess;
    const std::shared_ptr<Event> event = FindEvent(device, handle, &status);
    return event == nullptr ? status : body(device, *event);
  });
}

synStatus ReportFailure(synStatus status, const Progress& progress) {
  if (status == synSuccess) return synSuccess;
  const std::string reason = progress.reason();
  return Fail(status, "work of the stream failed: ", StatusText(status), reason.empty() ? "" : ": ",
              reason);
}

// The host has seen that the captured work ended.
void HostWaited(Device& device, const Capture& capture) {
  if (capture.point != nullptr) device.work_order()->HostWaited(*capture.point);
}

synStatus StampOf(const Event& event, uint64_t* stamp) {
  if (!event.collect_time()) {
    return Fail(synInvalidArgument, "the event was created without EVENT_COLLECT_TIME");
  }
  if (!event.recorded()) return Fail(synObjectNotInitialized, "the event was never recorded");
  const Capture capture = event.capture();
  if (!capture.Done()) return Fail(synBusy, "the event's work is pending");
  if (capture.stamp == nullptr) {
    return Fail(synUnavailable, "the event stands for a tensor of a launch: no time stamp");
  }
  *stamp = capture.stamp->load(std::memory_order_acquire);
  return synSuccess;
}

}  // namespace

synStatus synStreamCreateGeneric(synStreamHandle* stream, synDeviceId, uint32_t /*flags*/) {
  return DeviceCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(stream != nullptr);
    auto object = std::make_shared<Stream>(&Library::Get().counters().inline_executions,
                                           &device.usage(), device.work_order());
    object->set_affinity((uint64_t{1} << Device::kQueues) - 1);
    *stream = device.streams().Insert(std::move(object));
    if (*stream != nullptr) return synSuccess;
    return Fail(synAllResourcesTaken, "no stream is left");
  });
}

synStatus synStreamDestroy(synStreamHandle handle) {
  return StreamCall(handle, [&](Device& device, const std::shared_ptr<Stream>& stream) {
    if (!stream->idle()) return Fail(synBusy, "the stream has pending work");
    device.streams().Remove(handle);
    return synSuccess;
  });
}

synStatus synStreamWaitEvent(synStreamHandle handle, synEventHandle event_handle,
                             uint32_t /*flags*/) {
  return StreamCall(handle, [&](Device& device, const std::shared_ptr<Stream>& stream) {
    synStatus status = synSuccess;
    const std::shared_ptr<Event> event = FindEvent(device, event_handle, &status);
    if (event == nullptr) return status;
    Capture capture = event->capture();
    stream->OrderAfter(capture.point);
    // A stream runs after its own earlier work anyway.
    if (capture.progress == stream->progress()) return synSuccess;
    if (!capture.Done() || capture.CollectiveFailed()) {
      stream->Enqueue(std::make_unique<WaitWork>(std::move(capture)));
    }
    return synSuccess;
  });
}

synStatus synStreamSynchronize(synStreamHandle handle) {
  return StreamCall(handle, [](Device&, const std::shared_ptr<Stream>& stream) {
    const HostInterval interval(&Library::Get().profiler(), "synStreamSynchronize");
    SYN_RETURN_IF_FAILED(Library::Get().faults().Check(FaultPoint::kSynchronize));
    return ReportFailure(stream->Synchronize(), *stream->progress());
  });
}

synStatus synStreamQuery(synStreamHandle handle) {
  return StreamCall(handle, [](Device&, const std::shared_ptr<Stream>& stream) {
    if (!stream->idle()) return synBusy;
    return ReportFailure(stream->progress()->failure(), *stream->progress());
  });
}

synStatus synStreamSetAffinity(synDeviceId, synStreamHandle handle, uint64_t mask) {
  return StreamCall(handle, [&](Device&, const std::shared_ptr<Stream>& stream) -> synStatus {
    SYN_REQUIRE_ARGUMENT(mask != 0 && mask >> Device::kQueues == 0);
    stream->set_affinity(mask);
    return synSuccess;
  });
}

synStatus synStreamGetAffinity(synDeviceId, synStreamHandle handle, uint64_t* mask) {
  return StreamCall(handle, [&](Device&, const std::shared_ptr<Stream>& stream) -> synStatus {
    SYN_REQUIRE_ARGUMENT(mask != nullptr);
    *mask = stream->affinity();
    return synSuccess;
  });
}

synStatus synEventCreate(synEventHandle* event, synDeviceId, uint32_t flags) {
  return DeviceCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(event != nullptr);
    *event = device.events().Insert(std::make_shared<Event>((flags & EVENT_COLLECT_TIME) != 0));
    if (*event != nullptr) return synSuccess;
    return Fail(synAllResourcesTaken, "no event is left (GCFG_NUM_OF_USER_STREAM_EVENTS)");
  });
}

synStatus synEventDestroy(synEventHandle handle) {
  return EventCall(handle, [&](Device& device, Event&) {
    device.events().Remove(handle);
    return synSuccess;
  });
}

synStatus synEventRecord(synEventHandle handle, synStreamHandle stream_handle) {
  return StreamCall(stream_handle, [&](Device& device, const std::shared_ptr<Stream>& stream) {
    synStatus status = synSuccess;
    const std::shared_ptr<Event> event = FindEvent(device, handle, &status);
    if (event == nullptr) return status;
    Capture capture;
    capture.progress = stream->progress();
    capture.stream = stream;
    capture.point = stream->Point();
    if (event->collect_time()) {
      capture.stamp = std::make_shared<std::atomic<uint64_t>>(0);
      capture.sequence = stream->Enqueue(std::make_unique<StampWork>(capture.stamp));
    } else {
      capture.sequence = stream->tail();
    }
    event->set_capture(std::move(capture));
    return synSuccess;
  });
}

synStatus synEventQuery(synEventHandle handle) {
  return EventCall(handle, [](Device& device, Event& event) {
    const Capture capture = event.capture();
    if (!capture.Done()) return synBusy;
    HostWaited(device, capture);
    return synSuccess;
  });
}

synStatus synEventSynchronize(synEventHandle handle) {
  return EventCall(handle, [](Device& device, Event& event) -> synStatus {
    const HostInterval interval(&Library::Get().profiler(), "synEventSynchronize");
    SYN_RETURN_IF_FAILED(Library::Get().faults().Check(FaultPoint::kSynchronize));
    const Capture capture = event.capture();
    capture.Wait();
    HostWaited(device, capture);
    if (capture.progress == nullptr) return synSuccess;
    return ReportFailure(capture.progress->failure(), *capture.progress);
  });
}

synStatus synEventElapsedTime(uint64_t* nanoseconds, synEventHandle start, synEventHandle end) {
  return EventCall(start, [&](Device& device, Event& first) -> synStatus {
    SYN_REQUIRE_ARGUMENT(nanoseconds != nullptr);
    uint64_t start_ns = 0;
    SYN_RETURN_IF_FAILED(StampOf(first, &start_ns));
    if (end == nullptr) {
      *nanoseconds = start_ns;
      return synSuccess;
    }
    synStatus status = synSuccess;
    const std::shared_ptr<Event> last = FindEvent(device, end, &status);
    if (last == nullptr) return status;
    uint64_t end_ns = 0;
    SYN_RETURN_IF_FAILED(StampOf(*last, &end_ns));
    *nanoseconds = end_ns - start_ns;
    return synSuccess;
  });
}

synStatus synEventMapTensor(synEventHandle* events, size_t count, const synLaunchTensorInfo* table,
                            synRecipeHandle recipe_handle) {
  return DeviceCall([&](Device& device) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count == 0 || (events != nullptr && table != nullptr));
    const std::shared_ptr<LoadedRecipe> recipe = Library::Get().recipes().Find(recipe_handle);
    SYN_REQUIRE_ARGUMENT(recipe != nullptr);
    for (size_t i = 0; i < count; ++i) {
      synStatus status = synSuccess;
      const std::shared_ptr<Event> event = FindEvent(device, events[i], &status);
      if (event == nullptr) return status;
      const std::optional<uint32_t> index = recipe->IndexOfId(table[i].tensorId);
      if (!index.has_value() || !recipe->recipe().tensors[*index].external) {
        return Fail(synFail, "entry ", i, " is not an external tensor of the recipe");
      }
      event->set_mapping({.recipe = recipe.get(), .tensor_id = table[i].tensorId});
    }
    return synSuccess;
  });
}
