#include "propagator/core/machine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include "propagator/core/process.h"
#include "propagator/core/version.h"

namespace propagator {
namespace {

// libtorch's C++ interface does not tell a GPU's name; the driver in the
// process does.
std::string gpu_name(int index) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) return "";
  using DeviceName = int (*)(char* name, int size, int device);
  const auto tell =
      reinterpret_cast<DeviceName>(dlsym(driver, "cuDeviceGetName"));
  char name[256] = "";
  if (tell != nullptr) tell(name, sizeof name, index);
  dlclose(driver);
  return name;
}

// As lscpu has it, which knows ARM's numbers too.
std::string processor_name() {
  const auto env = find_program("env");
  if (env.empty() || find_program("lscpu").empty()) return "";
  const auto output = Process(env, {"LC_ALL=C", "lscpu"}).wait().output;
  const std::string key = "Model name:";
  const auto found = output.find(key);
  if (found == std::string::npos) return "";
  const auto begin = output.find_first_not_of(' ', found + key.size());
  return output.substr(begin, output.find('\n', begin) - begin);
}

}  // namespace

std::string machine_name(const c10::Device& device) {
  const auto name =
      device.is_cuda() ? gpu_name(device.index()) : processor_name();
  if (!name.empty() && name != "-") return name;
  utsname system{};
  uname(&system);
  return fmt::format("{} {}", system.sysname, system.machine);
}

nlohmann::json computed_by(const Runtime& runtime) {
  return {{"code", code_version()},
          {"machine", machine_name(runtime.device)},
          {"device", c10::DeviceTypeName(runtime.device.type(), true)},
          {"precision", config::name_of(runtime.precision)}};
}

}  // namespace propagator
