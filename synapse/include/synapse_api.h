// Functions of the Synapse C API, as exported by libSynapse.so (1.19 to 1.21). Plain C linkage.
//
// Clients do not link these: synapse/loader.h resolves them at run time, either from the emulator
// or from Intel's library. `synapse/functions.inc` lists the same names for the loader.
//
// Every function returns a synStatus unless the declaration says otherwise; synGetLastErrorMessage
// explains the calling thread's last failure. Sizes are bytes, times nanoseconds, shapes FCD-first.
// Device addresses and host addresses in calls are uint64_t. Unless a comment says otherwise all
// calls may come from any thread, but one graph must not be changed by two threads at once.
#pragma once

#include "synapse_api_types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// ---- life cycle, configuration, errors ------------------------------------------------------

// Must precede every other call but synDriverGetVersion, which all return synUninitialized before.
// Repeated calls succeed (synAlreadyInitialized with HABANA_DISABLE_DOUBLE_SYN_INITIALIZE).
synStatus synInitialize(void);
// No other call may be in flight. A second one returns synUninitialized.
synStatus synDestroy(void);
synStatus synDriverGetVersion(char* buffer, int length);
// Keys also work as environment variables. Unknown or private key: synInvalidArgument.
synStatus synConfigurationSet(const char* name, const char* value);
synStatus synConfigurationGet(const char* name, char* value, uint64_t size);
synStatus synStatusGetBriefDescription(synStatus status, char* buffer, size_t length);
// Dumps state and ends the process; returns only before initialisation or without a device.
synStatus synDumpStateAndTerminate(const char* message, uint64_t flags);
// Tells the library how much device memory the framework uses at a time stamp (telemetry).
synStatus synUpdateMemoryConsumption(uint64_t bytes, uint64_t seconds);
synStatus synGetLastError(void);
// Immortal text.
const char* synGetErrorString(synStatus status);
// Text valid until this thread's next call, or null.
const char* synGetLastErrorMessage(void);
synStatus synErrorGetStatus(synErrorHandle error, synStatus* status);
synStatus synErrorGetMessageLength(synErrorHandle error, size_t* length);
synStatus synErrorGetMessage(synErrorHandle error, char* message, size_t length);
synStatus synErrorDestroy(synErrorHandle error);
synStatus synTPCLibraryGetVersionSize(uint32_t* size);
synStatus synTPCLibraryGetVersions(const char** paths, uint32_t* versions);

// ---- devices --------------------------------------------------------------------------------

// Counts devices present, whether free or taken.
synStatus synDeviceGetCount(uint32_t* count);
synStatus synDeviceGetCountByDeviceType(uint32_t* count, synDeviceType type);
// `count` has synDeviceTypeSize entries, indexed by type.
synStatus synDeviceCount(uint32_t count[synDeviceTypeSize]);
// *size: capacity in, number of ids written out.
synStatus synDeviceGetModuleIDs(uint32_t* ids, uint32_t* size);
// One device per process. A second acquire returns synDeviceAlreadyAcquired; other failures write
// SYN_INVALID_DEVICE_ID. Null or empty bus id: the first free device.
synStatus synDeviceAcquire(synDeviceId* device, const char* pci_bus);
synStatus synDeviceAcquireByDeviceType(synDeviceId* device, synDeviceType type);
synStatus synDeviceAcquireByModuleId(synDeviceId* device, synModuleId module);
// Destroys the device's streams, events and memory.
synStatus synDeviceRelease(synDeviceId device);
// Waits for all earlier work of the device and reports a failed task's status.
synStatus synDeviceSynchronize(synDeviceId device);
synStatus synDeviceGetName(char* buffer, int length, synDeviceId device);
synStatus synDeviceGetPCIBusId(char* buffer, int length, synDeviceId device);
synStatus synDeviceGetInfo(synDeviceId device, synDeviceInfo* info);
synStatus synDeviceGetInfoV2(synDeviceId device, synDeviceInfoV2* info);
synStatus synDeviceGetAttribute(uint64_t* values, const synDeviceAttribute* attributes,
                                unsigned count, synDeviceId device);
synStatus synDeviceGetAttributeByModuleId(uint64_t* values, const synDeviceAttribute* attributes,
                                          unsigned count, synModuleId module);
// Needs no acquired device; attributes that only a device knows return synUnsupported.
synStatus synDeviceTypeGetAttribute(uint64_t* values, const synDeviceAttribute* attributes,
                                    unsigned count, synDeviceType type);
synStatus synDeviceGetMemoryInfo(synDeviceId device, uint64_t* free, uint64_t* total);
synStatus synDeviceGetAffinityMaskRange(synDeviceId device, uint64_t* mask);
synStatus synDeviceGetNextStreamAffinity(synDeviceId device, uint64_t* mask);

// ---- memory and copies ----------------------------------------------------------------------

// Host memory that counts as mapped for the device. flags 0.
synStatus synHostMalloc(synDeviceId device, uint64_t size, uint32_t flags, void** buffer);
synStatus synHostFree(synDeviceId device, const void* buffer, uint32_t flags);
// Mappings of one range are counted; unmapping an unknown pointer succeeds.
synStatus synHostMap(synDeviceId device, uint64_t size, const void* buffer);
synStatus synHostUnmap(synDeviceId device, const void* buffer);
// 128-byte aligned. A hint that cannot be honoured is ignored. Size 0 gives address 0.
synStatus synDeviceMalloc(synDeviceId device, uint64_t size, uint64_t hint, uint32_t flags,
                          uint64_t* address);
synStatus synDeviceFree(synDeviceId device, uint64_t address, uint32_t flags);
// Copies are queued; the data must stay valid until the stream passed them. The host side must lie
// in mapped memory (synMappingNotFound).
synStatus synMemCopyAsync(synStreamHandle stream, uint64_t source, uint64_t size,
                          uint64_t destination, synDmaDir direction);
synStatus synMemCopyAsyncMultiple(synStreamHandle stream, const uint64_t* sources,
                                  const uint64_t* sizes, const uint64_t* destinations,
                                  synDmaDir direction, uint64_t count);
// Counts are elements of the named width.
synStatus synMemsetD8Async(uint64_t address, unsigned char value, size_t count,
                           synStreamHandle stream);
synStatus synMemsetD16Async(uint64_t address, uint16_t value, size_t count, synStreamHandle stream);
synStatus synMemsetD32Async(uint64_t address, uint32_t value, size_t count, synStreamHandle stream);

// ---- streams and events ---------------------------------------------------------------------

// Work of one stream runs in order, different streams run independently. flags 0.
synStatus synStreamCreateGeneric(synStreamHandle* stream, synDeviceId device, uint32_t flags);
// Pending work: synBusy, and the stream stays usable. Not safe against concurrent use.
synStatus synStreamDestroy(synStreamHandle stream);
// Later work of the stream waits for what the event has captured at this moment.
synStatus synStreamWaitEvent(synStreamHandle stream, synEventHandle event, uint32_t flags);
synStatus synStreamSynchronize(synStreamHandle stream);
// synSuccess = idle, synBusy = work pending.
synStatus synStreamQuery(synStreamHandle stream);
synStatus synStreamSetAffinity(synDeviceId device, synStreamHandle stream, uint64_t mask);
synStatus synStreamGetAffinity(synDeviceId device, synStreamHandle stream, uint64_t* mask);
// flags: 0 or EVENT_COLLECT_TIME.
synStatus synEventCreate(synEventHandle* event, synDeviceId device, uint32_t flags);
// Allowed while pending.
synStatus synEventDestroy(synEventHandle event);
// Captures the stream's tail, replacing an earlier capture.
synStatus synEventRecord(synEventHandle event, synStreamHandle stream);
// synSuccess = done or never recorded, synBusy = pending.
synStatus synEventQuery(synEventHandle event);
synStatus synEventSynchronize(synEventHandle event);
// end - start in nanoseconds, or the stamp of start if `end` is null.
synStatus synEventElapsedTime(uint64_t* nanoseconds, synEventHandle start, synEventHandle end);
// Event i will be signalled when the external tensor of table entry i is ready. Once per launch.
synStatus synEventMapTensor(synEventHandle* events, size_t count, const synLaunchTensorInfo* table,
                            synRecipeHandle recipe);

// ---- graphs ---------------------------------------------------------------------------------

// Needs no device.
synStatus synGraphCreate(synGraphHandle* graph, synDeviceType type);
// Tuned for short compile time. Gaudi2 and Gaudi3.
synStatus synGraphCreateEager(synGraphHandle* graph, synDeviceType type);
// Recipes survive their graph.
synStatus synGraphDestroy(synGraphHandle graph);
synStatus synGraphGetDeviceType(synGraphHandle graph, synDeviceType* type);
synStatus synGraphSetAttribute(synGraphHandle graph, const synGraphAttribute* attributes,
                               const uint64_t* values, uint32_t size);
synStatus synGraphGetAttribute(synGraphHandle graph, const synGraphAttribute* attributes,
                               uint64_t* values, uint32_t size);
synStatus synGraphSetAttributes(synGraphHandle graph, const synGraphAttribute* attributes,
                                const synGraphAttributeVal* values, uint32_t size);
synStatus synGraphGetAttributes(synGraphHandle graph, const synGraphAttribute* attributes,
                                synGraphAttributeVal* values, uint32_t size);
// Deep copy of a graph that is not compiled yet. Either map null: only the counts are written.
synStatus synGraphDuplicate(synGraphHandle graph, synGraphHandle* duplicate,
                            synTensorHandleMap* tensors, uint32_t* num_tensors,
                            synNodeHandleMap* nodes, uint32_t* num_nodes);
// On a duplicate: derives the missing sizes of node outputs.
synStatus synGraphInferShapes(synGraphHandle graph);
// Once per graph. log_file may be null.
synStatus synGraphCompile(synRecipeHandle* recipe, synGraphHandle graph, const char* name,
                          const char* log_file);
// Since 1.21. *error is null on success, else the caller destroys it.
synStatus synGraphCompileV2(synRecipeHandle* recipe, synGraphHandle graph, const char* name,
                            synErrorHandle* error);

// ---- tensors --------------------------------------------------------------------------------

// A name used twice in a graph returns synNameIsAlreadyUsed and the existing handle.
synStatus synTensorHandleCreate(synTensor* tensor, synGraphHandle graph, synTensorType type,
                                const char* name);
// A tensor used by a node lives until its graph dies.
synStatus synTensorDestroy(synTensor tensor);
// After the tensor's first use in a node every setter returns synObjectAlreadyInitialized; a getter
// of a property never set returns synObjectNotInitialized.
synStatus synTensorSetGeometry(synTensor tensor, const synTensorGeometry* geometry,
                               synGeometryType kind);
synStatus synTensorGetGeometry(synTensor tensor, synTensorGeometry* geometry, synGeometryType kind);
synStatus synTensorSetDeviceDataType(synTensor tensor, synDataType type);
synStatus synTensorGetDeviceDataType(synTensor tensor, synDataType* type);
synStatus synTensorSetDeviceFullLayout(synTensor tensor, const synTensorDeviceFullLayout* layout);
synStatus synTensorGetDeviceFullLayout(synTensor tensor, synTensorDeviceFullLayout* layout);
synStatus synTensorSetDeviceLayout(synTensor tensor, const synTensorDeviceLayout* layout);
synStatus synTensorGetDeviceLayout(synTensor tensor, synTensorDeviceLayout* layout);
// Makes the tensor a constant with these bytes, or sets the data of a host-to-device tensor (twice
// the tensor's bytes: first for the maximal shape, then for the minimal one). Pass copy = true.
synStatus synTensorSetHostPtr(synTensor tensor, void* data, uint64_t size, synDataType type,
                              bool copy);
synStatus synTensorGetHostPtr(synTensor tensor, void** data, uint64_t* size, synDataType* type);
synStatus synTensorSetQuantizationData(synTensor tensor, synQuantizationProperty property,
                                       void* value, uint64_t size);
synStatus synTensorGetQuantizationData(synTensor tensor, synQuantizationProperty property,
                                       void* value, uint64_t size);
// Order in memory of a persistent tensor's dimensions; dims 0 clears it.
synStatus synTensorSetPermutation(synTensor tensor, const synTensorPermutation* permutation);
synStatus synTensorGetPermutation(synTensor tensor, synTensorPermutation* permutation);
synStatus synTensorSetAllowPermutation(synTensor tensor, int8_t value);
synStatus synTensorGetAllowPermutation(synTensor tensor, int8_t* value);
synStatus synTensorSetExternal(synTensor tensor, bool value);
synStatus synTensorGetExternal(synTensor tensor, bool* value);
synStatus synTensorSetMemoryReuse(synTensor tensor, bool value);
synStatus synTensorSetMinimalLatency(synTensor tensor, bool value);
synStatus synTensorGetMinimalLatency(synTensor tensor, bool* value);
// Without a section the tensor lives in the workspace.
synStatus synTensorAssignToSection(synTensor tensor, synSectionHandle section, uint64_t offset);
synStatus synTensorSetSectionOffset(synTensor tensor, uint64_t offset);
// Null and 0 when unassigned.
synStatus synTensorGetSection(synTensor tensor, synSectionHandle* section, uint64_t* offset);
synStatus synTensorGetName(synTensor tensor, uint64_t size, char* buffer);
synStatus synTensorGetType(synTensor tensor, synTensorType* type);
// Obsolete one-call forms; the tensor belongs to the graph that first uses it.
synStatus synTensorCreate(synTensor* tensor, const synTensorDescriptor* descriptor,
                          synSectionHandle section, uint64_t offset);
synStatus synConstTensorCreate(synTensor* tensor, const synTensorDescriptor* descriptor);

// ---- sections -------------------------------------------------------------------------------

// A region of memory that tensors are placed in. `descriptor` is ignored.
synStatus synSectionCreate(synSectionHandle* section, uint64_t descriptor, synGraphHandle graph);
// Legal after the graph's end too.
synStatus synSectionDestroy(synSectionHandle section);
// Attributes cannot change after a tensor was assigned.
synStatus synSectionSetGroup(synSectionHandle section, uint64_t group);
synStatus synSectionGetGroup(synSectionHandle section, uint64_t* group);
// true (default): the client supplies the memory at launch.
synStatus synSectionSetPersistent(synSectionHandle section, bool value);
synStatus synSectionGetPersistent(synSectionHandle section, bool* value);
synStatus synSectionSetConst(synSectionHandle section, bool value);
synStatus synSectionGetConst(synSectionHandle section, bool* value);
synStatus synSectionSetRMW(synSectionHandle section, bool value);
synStatus synSectionGetRMW(synSectionHandle section, bool* value);

// ---- nodes ----------------------------------------------------------------------------------

// `params` is copied. Layout arrays and their entries may be null. A null entry in the tensor lists
// is an absent optional operand.
synStatus synNodeCreate(synGraphHandle graph, const synTensor* inputs, const synTensor* outputs,
                        uint32_t num_inputs, uint32_t num_outputs, const void* params,
                        unsigned params_size, const char* guid, const char* name,
                        const char** input_layouts, const char** output_layouts);
synStatus synNodeCreateWithId(synGraphHandle graph, const synTensor* inputs,
                              const synTensor* outputs, uint32_t num_inputs, uint32_t num_outputs,
                              const void* params, unsigned params_size, const char* guid,
                              const char* name, synNodeId* id, const char** input_layouts,
                              const char** output_layouts);
synStatus synNodeSetUserParams(synGraphHandle graph, synNodeId node, const void* params,
                               unsigned params_size);
// Null params: only the size is written; else *size must equal the stored size.
synStatus synNodeGetUserParams(synGraphHandle graph, synNodeId node, void* params,
                               unsigned* params_size);
// Every blocked node runs after every blocking node.
synStatus synNodeDependencySet(synGraphHandle graph, const synNodeId* blocking,
                               const synNodeId* blocked, uint32_t num_blocking,
                               uint32_t num_blocked);
synStatus synNodeSetDeterministic(synGraphHandle graph, synNodeId node, bool value);
synStatus synNodeGetDeterministic(synGraphHandle graph, synNodeId node, bool* value);
synStatus synNodeSetRoundingMode(synGraphHandle graph, synNodeId node, synRoundingMode mode);
synStatus synNodeGetRoundingMode(synGraphHandle graph, synNodeId node, synRoundingMode* mode);
synStatus synNodeSetUserProgrammability(synGraphHandle graph, synNodeId node,
                                        const synUserProgrammability* config);
synStatus synNodeTypeSetPrecision(synGraphHandle graph, const char* guid, synDataType precision);

// ---- recipes --------------------------------------------------------------------------------

// Unwritable path or bad content: synWrongParamsFile.
synStatus synRecipeSerialize(synRecipeHandle recipe, const char* path);
synStatus synRecipeDeSerialize(synRecipeHandle* recipe, const char* path);
// The recipe must outlive its launches.
synStatus synRecipeDestroy(synRecipeHandle recipe);
synStatus synRecipeGetAttribute(uint64_t* values, const synRecipeAttribute* attributes,
                                unsigned count, synRecipeHandle recipe);
// A multiple of 128, possibly 0.
synStatus synWorkspaceGetSize(uint64_t* size, synRecipeHandle recipe);
synStatus synRecipeSectionGetProp(synRecipeHandle recipe, synSectionId section,
                                  synSectionProp property, uint64_t* value);
// Hands the host buffers of const sections to the client, who frees them with delete[].
synStatus synRecipeSectionHostBuffersClear(synRecipeHandle recipe, const synSectionId* sections,
                                           size_t count);
synStatus synTensorRetrieveLaunchAmount(synRecipeHandle recipe, uint32_t* count);
// `count` must be the launch amount.
synStatus synTensorRetrieveLaunchIds(synRecipeHandle recipe, uint64_t* ids, uint32_t count);
// The caller sets tensorId; an unknown id gets type TENSOR_TYPE_INVALID.
synStatus synTensorRetrieveLaunchInfoById(synRecipeHandle recipe, uint32_t count,
                                          synRetrievedLaunchTensorInfo* infos);
synStatus synTensorRetrieveLaunchInfoByIdExt(synRecipeHandle recipe, uint32_t count,
                                             synRetrievedLaunchTensorInfoExt* infos);
// Null infos: only the count is written.
synStatus synTensorRetrieveMultiLaunchInfosById(synRecipeHandle recipe, uint64_t id,
                                                synRetrievedLaunchTensorInfo* infos,
                                                uint32_t* count);
// An unknown name gets TENSOR_INVALID_ID.
synStatus synTensorRetrieveIds(synRecipeHandle recipe, const char** names, uint64_t* ids,
                               uint32_t count);
synStatus synTensorRetrievePersistentAmount(synRecipeHandle recipe, uint32_t* count);
synStatus synTensorRetrieveNames(synRecipeHandle recipe, char names[][ENQUEUE_TENSOR_NAME_MAX_SIZE],
                                 uint32_t count);
synStatus synTensorRetrieveInfosByName(synRecipeHandle recipe, uint32_t count,
                                       TensorMetadataInfo* infos);
synStatus synTensorRetrieveInfosByNameExt(synRecipeHandle recipe, uint32_t count,
                                          TensorMetadataInfoExt* infos);
// Ids of external tensors in the order in which they become ready.
synStatus synTensorExtExtractExecutionOrder(synRecipeHandle recipe, uint32_t count, uint64_t* ids);

// ---- launch ---------------------------------------------------------------------------------

// One table entry per persistent tensor. The table is copied before return. `workspace` is a device
// address, 0 only if the recipe needs none. Failures of the work itself surface at synchronisation.
synStatus synLaunch(synStreamHandle stream, const synLaunchTensorInfo* table, uint32_t count,
                    uint64_t workspace, synRecipeHandle recipe, uint32_t flags);
synStatus synLaunchWithExternalEvents(synStreamHandle stream, const synLaunchTensorInfo* table,
                                      uint32_t count, uint64_t workspace, synRecipeHandle recipe,
                                      synEventHandle* events, uint32_t num_events, uint32_t flags);
synStatus synLaunchWithExternalEventsExt(synStreamHandle stream,
                                         const synLaunchTensorInfoExt* table, uint32_t count,
                                         uint64_t workspace, synRecipeHandle recipe,
                                         synEventHandle* events, uint32_t num_events,
                                         uint32_t flags);

// ---- profiler -------------------------------------------------------------------------------

// Device bytes that the client must supply with synProfilerSetUserBuffer first; 0 = none.
synStatus synProfilerQueryRequiredMemory(synDeviceId device, uint32_t* bytes);
synStatus synProfilerSetUserBuffer(synDeviceId device, void* buffer);
synStatus synProfilerStart(synTraceType type, synDeviceId device);
synStatus synProfilerStop(synTraceType type, synDeviceId device);
// Buffer: synTraceEvent[n], strings, size_t n, size_t version. Null buffer: sizes only. Null size:
// writes the trace files.
synStatus synProfilerGetTrace(synTraceType type, synDeviceId device, synTraceFormat format,
                              void* buffer, size_t* size, size_t* num_events);
synStatus synProfilerGetCurrentTimeNS(uint64_t* nanoseconds);
// Interval of the host from `nanoseconds` to now.
synStatus synProfilerAddCustomMeasurement(const char* text, uint64_t nanoseconds);
// `args`: keys and values alternating, num_args even.
synStatus synProfilerAddCustomMeasurementArgs(const char* text, uint64_t nanoseconds,
                                              const char** args, size_t num_args);
synStatus synProfilerAddCustomMeasurementArgsAndThread(const char* text, uint64_t nanoseconds,
                                                       const char** args, size_t num_args,
                                                       const char* thread);
synStatus synProfilerAddCustomEvent(const char* text, uint64_t start, uint64_t end,
                                    const char** args, size_t num_args);

#pragma GCC visibility pop
#ifdef __cplusplus
}  // extern "C"
#endif
