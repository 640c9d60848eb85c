// SPDX-License-Identifier: Apache-2.0
// Opens the module, as Python would, and asks it where things are: host MODULE MODEL [FOLDER].
// FOLDER becomes the current one in between.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>

int main(int count, char** words) {
  if (count < 3) return 2;
  void* module = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  if (count > 3 && chdir(words[3]) != 0) return 1;
  const auto tell = reinterpret_cast<void (*)(const char*)>(dlsym(module, "tell_places"));
  if (tell == nullptr) return 1;
  tell(words[2]);
  return 0;
}
