// The compile server with FakeBackend in place of the compiler; everything else is the code of the
// product. Where HPU_FAKE_START_GATE names a file that exists, a server that starts creates
// FILE.reached and goes on when FILE is gone, or after a minute, for tests of what happens in
// between.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compiler_server/service/server_main.h"
#include "tests/service/fake_backend.h"

int main(int argc, char** argv) {
  if (const char* gate = std::getenv("HPU_FAKE_START_GATE"); gate != nullptr) {
    if (std::filesystem::exists(gate)) std::ofstream(std::string(gate) + ".reached");
    for (int i = 0; i < 6000 && std::filesystem::exists(gate); ++i) usleep(10'000);
  }
  return hpu::server::ServerMain(argc, argv, hpu::server::MakeFakeBackend);
}
