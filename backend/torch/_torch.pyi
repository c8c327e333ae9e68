"""The hpu device for PyTorch and the program executor (C++; backend/torch).

Importing this module registers the device with PyTorch (allocator, guard, hooks, kernels,
autocast). The import acquires no device; the first use of device memory, streams or a program
does. Sizes are bytes and times milliseconds unless a name says otherwise.
"""

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import torch
from typing_extensions import Buffer

class DeviceError(RuntimeError):
    """A device call failed; the text names the call, the status number and its meaning."""

class InputsWithTangents(RuntimeError):
    """An input of a program has a tangent of forward-mode differentiation."""

class AliasedInputs(RuntimeError):
    """A mutated input of a program shares memory with another input; run the graph eagerly."""

def element_types() -> list[torch.dtype]:
    """Returns the element types that a captured graph can hold."""

def joined_groups() -> list[str]:
    """Returns the names of the process groups of hccl that this process has joined, in that
    order."""

def group_in_programs(name: str) -> str:
    """Returns what programs call a process group: its place among joined_groups(), or its name if
    it is not one of them."""

def describe(tensor: torch.Tensor) -> str:
    """Returns "float32[2, 3]{3, 1}@hpu": element type, sizes, strides, type of device."""

class GraphBuilder:
    """Builds a captured graph call by call; needs no device.

    Value ids are dense over inputs, constants and results, in the order of the calls; the bytes of
    equal graphs are equal in whatever order they were declared. Sizes, strides and offsets are in
    elements. Wrong arguments raise TypeError or ValueError that name the call and the argument; a
    refused call leaves the graph as it was. Names and sources beyond 512 bytes are cut.
    """

    class Value:
        """A tensor of the graph under construction, by its id."""

        id: int
        def __init__(self, id: int) -> None: ...

    def __init__(self, name: str) -> None: ...
    def add_tensor_input(
        self,
        dtype: torch.dtype,
        sizes: Sequence[int],
        strides: Sequence[int],
        storage_offset: int = 0,
        on_cpu: bool = False,
        name: str = "",
        is_weight: bool = False,
        is_trained: bool = False,
    ) -> int: ...
    def add_scalar_input(self, name: str = "") -> int: ...
    def add_constant(self, tensor: torch.Tensor) -> int:
        """Adds the elements of a tensor, on whichever device it is."""
    def add_call(
        self,
        target: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: Sequence[tuple[torch.dtype, Sequence[int], Sequence[int], int, int | None]],
        draws_random: bool = False,
        source: str = "",
    ) -> int:
        """Adds one call of an operator that PyTorch has, such as "aten.addmm.default", and returns
        the id of its first result. Arguments are as a dispatch mode sees them, with Values in place
        of tensors; they are brought into schema order, and missing ones get the schema's default.
        The schema says what the call writes. A result is (dtype, sizes, strides, storage offset,
        value whose memory it lies in or None for its own)."""
    def set_derivative(
        self, tangents: Sequence[tuple[int, int]], gradients: Sequence[tuple[int, int]]
    ) -> None: ...
    def set_outputs(
        self, outputs: Sequence[Value | bool | int | float | None], forms: Sequence[str] = ()
    ) -> None:
        """forms says by output how it came out of an input's memory (graph/alias_form.h). "" means
        that an input is returned as itself, and that any other output in the memory of an input is
        a view. For outputs elsewhere a form has no meaning."""

    def serialize(self) -> bytes: ...
    def text(self) -> str:
        """Returns a readable listing."""
    @property
    def call_count(self) -> int: ...

def initialize(default_library_path: str) -> None:
    """Says where libSynapse.so is if HPU_SYNAPSE_LIBRARY is not set. Acquires nothing."""

def acquire() -> None:
    """Acquires the device now (otherwise the first use does). Harmless when repeated."""

def is_acquired() -> bool: ...
def is_available() -> bool:
    """True if the library loads and reports a device. Never raises."""

def device_count() -> int:
    """Returns the number of devices of this host, of which a process holds one. Never raises."""

def await_autograd_thread() -> None:
    """Returns when autograd's thread of the device has dropped its last pass; after 1 s anyway.

    It must run before the interpreter ends: a thread that asks for the GIL after that aborts the
    process."""

def is_in_bad_fork() -> bool:
    """True in a child forked after the device was acquired: device calls raise there."""

def device_name() -> str:
    """Returns the library's name for the device, e.g. "GAUDI2"."""

def device_kind() -> str:
    """Returns the lower-case device type that keys contain: "gaudi2"."""

def device_type_number() -> int:
    """Returns the synDeviceType of the acquired device."""

def isa_level() -> str:
    """Returns the emulator's level: "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16" or
    "x86-64-v4-amx"; "" for a real device."""

def is_emulated() -> bool: ...
def library_path() -> str:
    """Returns the libSynapse.so in use; "" before one is loaded."""

def undeclared_writes() -> dict[str, tuple[list[str], str]]:
    """Returns the operators that write to arguments although their schemas do not say so, by name:
    those arguments, and the one that says whether they are written to ("": they always are)."""

def dropout_switches() -> list[tuple[str, str]]:
    """Returns the arguments that turn off what an operator draws random numbers for, by 0 or False:
    the namespace of the operators ("": any) and the name."""

def extension_libraries() -> list[str]:
    """Returns the files of the loaded objects that are linked against PyTorch and are neither
    PyTorch's nor this package's: Python cannot see the code that they registered with its
    dispatcher."""

def list_custom_kernels() -> str:
    """Opens the libraries that GC_KERNEL_PATH names, and returns a line "guid version" for each of
    their kernels; "" for a real device."""

def driver_version() -> str: ...
def device_properties() -> dict[str, int]:
    """sramBaseAddress, dramBaseAddress, sramSize, dramSize, tpcEnabledMask, dramEnabled, fd,
    device_id, device_type."""

def synchronize() -> None:
    """Waits for all queued work of the device. Releases the GIL."""

def set_compile_only(on: bool) -> None:
    """From now on programs are compiled and loaded, and their recipes are not launched: their new
    results are zeros, and what they would write stays as it is. Copies and fills run. Eager calls
    that can be programs are compiled at their first call."""

def set_sync_launch(on: bool) -> None:
    """From now on the host waits for each launch, so that a failure is raised where it arose."""

def set_num_threads(count: int) -> None:
    """Sets the compute threads of the emulated device; a real one ignores it."""

def memory_stats() -> dict[str, int]:
    """Limit, InUse, MaxInUse, NumAllocs, NumFrees, ActiveAllocs, MaxAllocSize, TotalSystemAllocs,
    TotalSystemFrees, TotalActiveAllocs. Zeros before the device is acquired."""

def memory_snapshot() -> dict[str, Any]:
    """Returns the keys "segments" and "device_traces" of torch.cuda.memory._snapshot."""

def record_memory_history(most_events: int | None, stacks: bool) -> None:
    """Records the allocator's events from now on, with the callers' stacks; None ends it."""

def memory_reserved() -> int:
    """Returns the bytes taken from the device, including cached blocks."""

def max_memory_reserved() -> int: ...
def reset_peak_memory_stats() -> None:
    """MaxInUse, MaxAllocSize and the reserved peak start again from the present."""

def reset_accumulated_memory_stats() -> None:
    """NumAllocs, NumFrees, TotalSystemAllocs and TotalSystemFrees start again from zero."""

def mem_get_info() -> tuple[int, int]:
    """Returns (free, total) of the device memory."""

def empty_cache() -> None: ...
def data_address(tensor: torch.Tensor) -> int:
    """Returns the device address of the first element."""

# A stream is its id (torch.Stream.stream_id); 0 is the default stream. The current stream is a
# property of the thread.

def default_stream() -> int: ...
def current_stream() -> int: ...
def set_stream(stream_id: int) -> None: ...
def stream_handle(stream_id: int) -> int:
    """Returns the library's stream handle (synStreamHandle) as an integer."""

def event_elapsed_ms(start: int, end: int) -> float:
    """Returns the milliseconds from one event to another, each given by torch.Event.event_id. Both
    must be recorded, complete and made with timing."""

def manual_seed(seed: int) -> None: ...
def seed() -> int:
    """Seeds from the system's entropy and returns the seed."""

def initial_seed() -> int: ...
def get_rng_state() -> torch.Tensor:
    """Returns a uint8 CPU tensor."""

def set_rng_state(state: torch.Tensor) -> None: ...
def default_generator() -> torch.Generator: ...
def fallback_counts() -> dict[str, int]:
    """Returns how often eager ops ran on the CPU since the last reset, by operator name (without
    namespace and overload; the underscore of in-place forms is kept)."""

def op_counts() -> dict[str, dict[str, int]]:
    """Returns how often eager ops were "recipes", ran "direct" on the host, or were "fallbacks",
    since the last reset, by operator name as above."""

def reset_op_counts() -> None: ...
def wants_index_checks() -> bool:
    """Returns whether PT_HPU_CHECK_INDICES is set."""

def set_recipe_ops(names: list[str]) -> None:
    """Tells the names (without namespace and overload) of the operators that recipes have."""

def register_op_kernel(name: str, overload: str) -> None:
    """Gives an operator of the namespace hpu, which exists ("hpu::name"), its kernel on hpu."""

def set_front_end(front_end: Any) -> None:
    """Sets what captures calls and asks the compile server: an object with the functions
    compile_call and describe_call (of an operator's name and overload and its arguments), which
    return an eager.calls.Answer and a lazy.calls.Description, and compile_recording, which returns
    a lazy.recordings.Answer. They are called with the GIL, in any thread, in the state of a new
    thread (no modes, no autocast), and Dynamo does not trace them."""

def start_lazy_mode(most_calls: int) -> None:
    """From now on calls of operators on hpu are recorded, and run when an element is needed, at
    queue_recorded(), or when there are `most_calls` of them."""

class HcclOptions:
    """Options of a process group with the backend hccl."""

    def __init__(self, timeout: datetime.timedelta = ...) -> None: ...

class HcclBackend:
    """The process group backend hccl (backend/torch/distributed/hccl_backend.h), a
    torch._C._distributed_c10d.Backend."""

    def __init__(self, store: Any, rank: int, size: int, options: HcclOptions) -> None: ...
    @property
    def options(self) -> HcclOptions: ...
    def perform_nocolor_split(self, device: Any) -> None: ...

def stop_watching_backends() -> None:
    """Ends the threads of all HcclBackends. Called before the interpreter ends."""

def set_lazy_collectives(recorded: bool) -> None:
    """Whether lazy mode records collectives. Captures always do."""

def stop_recording() -> None:
    """Ends lazy mode and gives up what is recorded: its tensors have no elements."""

def queue_recorded() -> None:
    """Queues what has been recorded for all streams that have no capture. Raises what that
    raises."""

def give_memory(tensor: torch.Tensor) -> None:
    """Queues what has been recorded for a tensor on hpu, and gives its storage memory."""

def recorder_counts() -> dict[str, int]:
    """How many recordings have run ("runs") with how many calls ("calls"), for how many the compile
    server was asked for a program ("compilations"), how many ran call by call ("runs_by_call"), and
    how many calls wait ("recorded")."""

def without_recording(function: Callable[[], Any]) -> Any:
    """The result of `function`, whose operators run at once."""

def begin_capture() -> int:
    """Records the calls of the current stream for a ReplayableGraph, and returns the capture's
    number."""

def end_capture(capture: int) -> ReplayableGraph: ...
def end_call(
    capture: int, given: list[torch.Tensor], results: list[torch.Tensor], differentiable: bool
) -> ReplayableCall:
    """Ends the capture of a call. `given` are the tensors that are others at later runs. In a
    differentiable call autograd has kept tensors for the backward."""

def stand_in_for(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on hpu like `tensor`, without memory, that stands for one in the capture of a
    call."""

def abandon_capture(capture: int) -> None:
    """Gives a capture up, if it has not ended."""

def is_capturing() -> bool:
    """Whether the current stream has a capture."""

class ReplayableGraph:
    """A capture that has ended. It keeps the memory that it reads and writes."""

    def replay(self) -> None:
        """Runs the captured calls on the current stream."""

    def text(self) -> str:
        """The program."""

class ReplayableCall:
    """A captured call, which is run with other tensors."""

    @property
    def uses(self) -> list[bool]:
        """By given tensor: whether the call uses it."""

    @property
    def writes(self) -> list[bool]:
        """By given tensor: whether the call writes to it."""

    @property
    def fresh(self) -> list[bool]:
        """By result: whether nothing else has its memory."""

    @property
    def made(self) -> list[torch.Tensor]:
        """The tensors that stand for the second list of a run, if the call is differentiable."""

    def run(
        self, given: Sequence[torch.Tensor]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
        """The results of the call with these tensors, and the memory that its operators filled.
        None if they differ from the captured ones in sizes, strides or types."""

    def text(self) -> str:
        """The program."""

def forget_call_programs() -> None:
    """Makes eager calls and recordings ask for their programs again."""

def register_autocast(rules: list[tuple[str, str]]) -> list[str]:
    """Registers how autocast on hpu casts the arguments of aten's out-of-place operators; returns
    the names that no such operator has. Call it once.

    A rule has a name, with or without an overload, and a way to cast floating-point arguments that
    are not f64: "lower_precision" (to autocast's type), "lower_precision_of_first" (the first
    argument alone), "fp32", "promote" (to their widest type), or "aligned" (the same, and autocast
    goes on in the operator's parts). The first rule of an operator holds."""

def autocast_rules() -> list[tuple[str, str]]:
    """Returns the rules that were registered."""

LOG_DEVICE: int  # 0x1
LOG_KERNEL: int  # 0x2
LOG_BRIDGE: int  # 0x4
LOG_SYNAPSE: int  # 0x8
LOG_DISTRIBUTED: int  # 0x10
LOG_LAZY: int  # 0x20
LOG_PINNED: int  # 0x40
LOG_FALLBACK: int  # 0x80
LOG_FATAL: int  # 1
LOG_WARNING: int  # 2
LOG_TRACE: int  # 4
LOG_DEBUG: int  # 8

def log_enabled(module: int, kind: int) -> bool:
    """True if PT_HPU_LOG_MOD_MASK has the module bit and PT_HPU_LOG_TYPE_MASK the kind bit."""

def log_line(module: int, kind: int, text: str) -> None: ...
def reload_log_settings() -> None:
    """Reads PT_HPU_LOG_MOD_MASK, PT_HPU_LOG_TYPE_MASK, ENABLE_CONSOLE and HABANA_LOGS again, and
    PT_HPU_PLACE_ON_CPU and PT_HPU_SOURCE_LINES."""

class Program:
    """A compiled graph, ready to run. Bytes must have been verified before (signature, digests).

    program is a container of program/program.h; recipes are serialised recipes in the program's
    order. name names the program in messages and profiles. Creating a Program loads the recipes but
    acquires no device.
    """

    def __init__(
        self, program: Buffer, recipes: Sequence[Buffer], name: str = "unnamed"
    ) -> None: ...
    def __call__(
        self, *inputs: object, differentiate: Callable[..., object] = ...
    ) -> tuple[object, ...]:
        """Runs on the current stream, asynchronously. One argument per graph input; scalars are
        ignored. For a program with a backward, differentiate computes the gradients that will be
        differentiated again (dynamo/programs/differentiation.py). Raises TypeError or ValueError
        for an input that does not fit its spec, AliasedInputs, InputsWithTangents, DeviceError,
        torch.OutOfMemoryError."""

    @property
    def name(self) -> str: ...
    @property
    def launch_count(self) -> int:
        """The number of recipe launches per call."""

    @property
    def eager_count(self) -> int:
        """The number of eager ops per call."""

    @property
    def node_count(self) -> int: ...
    @property
    def eager_node_count(self) -> int: ...
    @property
    def call_count(self) -> int: ...
    @property
    def mutates_inputs(self) -> bool: ...
    def text(self) -> str:
        """Returns a readable listing."""

    def takes(
        self, inputs: Sequence[tuple[torch.dtype, Sequence[int], Sequence[int], bool]], outputs: int
    ) -> bool:
        """Returns whether a call takes tensors of these forms (dtype, sizes, strides, whether it is
        on the CPU) and has this number of outputs."""

    def input_forms(self) -> list[tuple[torch.dtype, tuple[int, ...], tuple[int, ...], bool]]:
        """Returns the forms of the tensors that a call takes, as takes() gets them."""

def launch_counters() -> dict[str, int]:
    """Returns the counts since the module was loaded: programs, launches, eager_ops,
    recipes_loaded, recipes_alive, bytes_to_device, bytes_to_host."""

def start_trace() -> None:
    """Starts a trace of host calls and of the device, after waiting for queued work. Raises
    DeviceError if a trace is running, or if HABANA_PROFILE=0 forbids it."""

def stop_trace() -> list[dict[str, Any]]:
    """Waits for queued work and ends the trace. Returns records with ph ("X" interval, "M" name of
    a process or thread, "s" and "f" ends of an arrow), name, cat, pid, tid, id, start_ns,
    duration_ns, recipe, args."""

def host_tracing() -> bool:
    """Returns True while a trace records host intervals."""

def trace_clock() -> int:
    """Returns the clock of the records, in nanoseconds."""

def add_host_interval(name: str, start_ns: int, end_ns: int) -> None:
    """Adds an interval of this thread to the running trace; does nothing without one."""

def measure_host_peak() -> tuple[float, float, float, int, int, int]:
    """Measures the best that the CPUs behind the emulated device reach, per second: operations
    with f32 factors, operations with bf16 factors, and bytes; then the sizes of their caches of
    level 1 to 3 in bytes. It takes about a second. Raises DeviceError on another device."""

def trace_tasks(on: bool) -> None:
    """While on, traced kernels run one task after the other, and their records contain the CPU
    time of each task in args["task_ns"], joined by commas. Raises DeviceError on another device."""
