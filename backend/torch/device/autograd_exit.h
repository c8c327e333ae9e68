// PyTorch's autograd has a thread for the device. When it has finished a backward pass it drops
// what the pass held, Python's context objects among it, for which it takes the GIL; in an
// interpreter that has begun to end, whoever asks for the GIL is ended, within a destructor: the
// process aborts
// ("terminate called without an active exception"). So the interpreter waits, before it ends, until
// the thread has dropped everything.
#pragma once

namespace hpu::torch_backend {

// To be called when autograd's thread may have been started: it announces its device.
void NoteDeviceThread();

// Returns when autograd's thread of the device has dropped what its last pass held, after a second
// in any case. Without the GIL. Nothing happens if there is no such thread.
void AwaitAutogradThread();

}  // namespace hpu::torch_backend
