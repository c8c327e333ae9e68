// Launches (reference 1.12, 4.6).
#include <algorithm>

#include "emulator/api/entry.h"
#include "emulator/runtime/launch_work.h"
#include "synapse/include/synapse_api.h"

using namespace hpu::emulator;  // NOLINT

namespace {

// Turns the events of a launch list into signals of that launch, which is the next work of
// `stream`.
synStatus TakeSignals(Device& device, const Stream& stream, const LoadedRecipe& recipe,
                      const synEventHandle* handles, uint32_t count,
                      std::vector<LaunchSignal>* signals) {
  SYN_REQUIRE_ARGUMENT(count == 0 || handles != nullptr);
  for (uint32_t i = 0; i < count; ++i) {
    const std::shared_ptr<Event> event = device.events().Find(handles[i]);
    const std::optional<Event::Mapping> mapping =
        event == nullptr ? std::nullopt : event->TakeMapping();
    if (!mapping.has_value() || mapping->recipe != &recipe) {
      return Fail(synInvalidEventHandle, "event ", i,
                  " of the launch is mapped to no tensor of its recipe (synEventMapTensor)");
    }
    const std::vector<uint32_t>& external = recipe.external_tensors();
    const auto position = std::find_if(external.begin(), external.end(), [&](uint32_t tensor) {
      return recipe.tensor_id(tensor) == mapping->tensor_id;
    });
    LaunchSignal signal;
    signal.after_kernels =
        recipe.external_ready_after()[static_cast<size_t>(position - external.begin())];
    signal.progress = std::make_shared<Progress>();
    Capture capture;
    capture.progress = signal.progress;
    capture.sequence = 1;
    capture.point = stream.Point(/*more=*/1);
    event->set_capture(std::move(capture));
    signals->push_back(std::move(signal));
  }
  std::stable_sort(signals->begin(), signals->end(),
                   [](const auto& a, const auto& b) { return a.after_kernels < b.after_kernels; });
  return synSuccess;
}

synStatus StatusOf(const absl::Status& status) {
  const synStatus code = absl::IsFailedPrecondition(status)  ? synUnsupported
                         : absl::IsResourceExhausted(status) ? synOutOfHostMemory
                         : absl::IsInvalidArgument(status)   ? synInvalidArgument
                                                             : synFail;
  return Fail(code, status.message());
}

synStatus Launch(synStreamHandle stream_handle, const LaunchTable& table,
                 synRecipeHandle recipe_handle, const synEventHandle* events, uint32_t num_events) {
  return DeviceCall([&](Device& device) -> synStatus {
    Library& library = Library::Get();
    const HostInterval interval(&library.profiler(), "synLaunch");
    const std::shared_ptr<Stream> stream = device.streams().Find(stream_handle);
    LaunchRequest request;
    request.recipe = library.recipes().Find(recipe_handle);
    SYN_REQUIRE_ARGUMENT(stream != nullptr && request.recipe != nullptr);
    SYN_REQUIRE_ARGUMENT(table.count == 0 || table.entries != nullptr);
    SYN_RETURN_IF_FAILED(library.faults().Check(FaultPoint::kLaunch));
    SYN_RETURN_IF_FAILED(BindLaunch(device.launch_context(), table, &request));
    const absl::Status mapped = request.recipe->EnsureExecutable();
    if (!mapped.ok()) return StatusOf(mapped);
    SYN_RETURN_IF_FAILED(
        TakeSignals(device, *stream, *request.recipe, events, num_events, &request.signals));
    request.origin = library.profiler().Origin(StreamNumber(stream_handle));
    stream->Enqueue(std::make_unique<LaunchWork>(&device.executor(), std::move(request),
                                                 stream->CountLaunch(), stream_handle));
    return synSuccess;
  });
}

}  // namespace

synStatus synLaunch(synStreamHandle stream, const synLaunchTensorInfo* table, uint32_t count,
                    uint64_t workspace, synRecipeHandle recipe, uint32_t flags) {
  return Launch(stream, {table, count, workspace, flags}, recipe, nullptr, 0);
}

synStatus synLaunchWithExternalEvents(synStreamHandle stream, const synLaunchTensorInfo* table,
                                      uint32_t count, uint64_t workspace, synRecipeHandle recipe,
                                      synEventHandle* events, uint32_t num_events, uint32_t flags) {
  return Launch(stream, {table, count, workspace, flags}, recipe, events, num_events);
}

synStatus synLaunchWithExternalEventsExt(synStreamHandle stream,
                                         const synLaunchTensorInfoExt* table, uint32_t count,
                                         uint64_t workspace, synRecipeHandle recipe,
                                         synEventHandle* events, uint32_t num_events,
                                         uint32_t flags) {
  return Launch(stream, {table, count, workspace, flags}, recipe, events, num_events);
}
