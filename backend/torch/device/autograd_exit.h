// PyTorch's autograd has a thread for the device. When that thread has finished a backward pass, it
// drops the objects that the pass held. Python's context objects are among them, and it takes the
// GIL to drop those. In an interpreter that has begun to end, a thread that asks for the GIL is
// terminated. Here that happens within a destructor, so the process aborts ("terminate called
// without an active exception"). Therefore the interpreter waits before it ends until the thread
// has dropped everything.
#pragma once

namespace hpu::torch_backend {

// Call this when autograd's thread may have been started; it makes the device known.
void NoteDeviceThread();

// Returns when autograd's thread of the device has dropped everything that its last pass held, or
// after a second in any case. Call it without the GIL. It does nothing if there is no such thread.
void AwaitAutogradThread();

}  // namespace hpu::torch_backend
