// The compile server with FakeBackend in place of the compiler; everything else is the code of the
// product.
#include "compiler_server/service/server_main.h"
#include "tests/service/fake_backend.h"

int main(int argc, char** argv) {
  return hpu::server::ServerMain(argc, argv, hpu::server::MakeFakeBackend);
}
