// Converts between absl::Status and grpc::Status, which have the same codes but no conversion in
// the packaged gRPC.
#pragma once

#include <grpcpp/support/status.h>

#include "base/status.h"

namespace hpu {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace hpu
