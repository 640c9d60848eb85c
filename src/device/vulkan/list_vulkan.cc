// SPDX-License-Identifier: Apache-2.0
// The Vulkan devices of this machine, for device/device.h.
#include <vulkan/vulkan.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "device/device.h"

extern "C" __attribute__((visibility("default"))) void fovea_list_devices(fovea::FoundDevice found,
                                                                          void* context) {
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  create.pApplicationInfo = &application;
  VkInstance instance = VK_NULL_HANDLE;
  if (vkCreateInstance(&create, nullptr, &instance) != VK_SUCCESS) return;  // no driver: no devices

  uint32_t count = 0;
  vkEnumeratePhysicalDevices(instance, &count, nullptr);
  std::vector<VkPhysicalDevice> devices(count);
  vkEnumeratePhysicalDevices(instance, &count, devices.data());
  devices.resize(count);
  for (VkPhysicalDevice device : devices) {
    VkPhysicalDeviceProperties properties;
    vkGetPhysicalDeviceProperties(device, &properties);
    char description[512];
    std::snprintf(description, sizeof description, "%s, Vulkan %u.%u", properties.deviceName,
                  VK_API_VERSION_MAJOR(properties.apiVersion),
                  VK_API_VERSION_MINOR(properties.apiVersion));
    found(context, description);
  }
  vkDestroyInstance(instance, nullptr);
}
