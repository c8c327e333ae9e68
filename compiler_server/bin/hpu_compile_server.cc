// The compile server.
#include "compiler_server/bin/compiler_backend.h"
#include "compiler_server/service/server_main.h"

int main(int argc, char** argv) {
  return hpu::server::ServerMain(argc, argv, hpu::server::MakeCompilerBackend);
}
