// SPDX-License-Identifier: Apache-2.0
// What Nsight Compute counted of the kernels of a request, by stage, against the targets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "profile/stages.h"

namespace fovea::app {

// What is asked of Nsight Compute, as --metrics takes it. Rates come with the counts they weigh.
inline constexpr std::string_view kMetrics =
    "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,lts__t_sectors.sum,"
    "lts__t_sector_hit_rate.pct,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,"
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct";

// Sums over kernels.
struct Counters {
  int64_t kernels = 0;
  double ns = 0;
  double dram_bytes = 0;
  double l2_sectors = 0;
  double l2_hits = 0;       // sectors that the second cache had
  double load_sectors = 0;  // that loads from global memory asked for
  double load_used = 0;     // ... as many as the bytes they used would fill

  Counters& operator+=(const Counters& other);
  double l2_hit_rate() const { return l2_sectors > 0 ? l2_hits / l2_sectors : 0; }
  double coalescing() const { return load_sectors > 0 ? load_used / load_sectors : 0; }
};

struct RequestCounters {
  PerStage<Counters> stages{};
  Counters total;
};

// Reads what `ncu --csv --print-units base` printed: a row for each kernel and metric. Kernels
// belong to the stage whose mark (device/profile.h) comes next; what comes behind the last mark is
// counted as Stage::kOther.
Result<RequestCounters> read_counters(std::string_view csv);

struct Verdict {
  std::string name;
  double value = 0;
  double target = 0;
  bool at_most = false;  // the target is a ceiling; otherwise a floor
  bool pass() const { return at_most ? value < target : value > target; }
};

// DRAM bytes below half of the dense path's, hit rate of the second cache above 80 %, coalescing
// above 90 %. Of one stage, or of all.
std::vector<Verdict> judge(const Counters& foveated, const Counters& dense);

}  // namespace fovea::app
