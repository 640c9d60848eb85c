// SPDX-License-Identifier: Apache-2.0
#include "view/page.h"

#include "base/check.h"
#include "page_policy.h"
#include "view/trace_element.h"

extern "C" const char fovea_page_begin[];
extern "C" const char fovea_page_end[];

namespace fovea::view {
namespace {

constexpr std::string_view kTracePlace = "<!--trace-->";

}  // namespace

std::string_view page() {
  return {fovea_page_begin, static_cast<size_t>(fovea_page_end - fovea_page_begin)};
}

std::string page_policy() { return std::string(kPagePolicy) + "; frame-ancestors 'none'"; }

Result<std::string> page_with(std::string_view trace) {
  const auto element = trace_element(trace);
  if (!element) return element.error();
  std::string made(page());
  const size_t place = made.find(kTracePlace);
  FOVEA_CHECK(place != std::string::npos);
  made.replace(place, kTracePlace.size(), *element);
  return made;
}

}  // namespace fovea::view
