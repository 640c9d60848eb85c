// SPDX-License-Identifier: Apache-2.0
// What a *_bench.cc file uses: verify first, then time. `fovea bench SUITE` runs what registered.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/threads.h"
#include "fovea/result.h"

namespace fovea {

struct BenchRow {
  std::string name;  // "pyramid/4096x4096x5"
  double value = 0;
  std::string unit;             // "ms"
  std::optional<double> limit;  // what the machine's measured ceiling would give, in the same unit
  std::string note;             // e.g. "12.1 GB/s, 71 % of copy"
};

// Runs one suite and gathers its rows. A row is only kept when its result was verified first.
class Bench {
 public:
  Bench(Threads& bench_threads, std::function<void(const std::string&)> on_progress)
      : threads(bench_threads), progress(std::move(on_progress)) {}

  // The median of repeated calls, in ms; at least `min_calls` and about `budget_ms` in all.
  static double median_ms(const std::function<void()>& body, int min_calls = 5,
                          double budget_ms = 500);

  // Bytes per ms that the faster of two copies, memcpy and streaming stores, moves on these threads
  // (bytes read + bytes written), measured once.
  double copy_bytes_per_ms();

  // Bytes per ms that these threads read from memory, measured once.
  double read_bytes_per_ms();

  void add(bool verified, BenchRow row);

  // Whether the row of this name, or those that begin with it and a slash and are measured at once,
  // are to be measured.
  bool wants(const std::string& name) const {
    return only.empty() || name == only || name.starts_with(only + "/") ||
           only.starts_with(name + "/");
  }

  Threads& threads;
  std::string model;           // the checkpoint folder, for suites that need one
  std::string weights;         // the format to keep it in; empty: as the files have it
  std::string device;          // for suites that run on one: as --device takes it
  std::string kernels;         // ... best or portable
  std::string only;            // ... the rows NAME and NAME/... alone; empty: all
  std::string description;     // ... what it is; empty: the rows are the CPU's
  std::optional<Error> error;  // why a suite could not run
  std::function<void(const std::string&)> progress;
  std::vector<BenchRow> rows;
  std::vector<std::string> unverified;  // names of rows whose result was wrong
  std::vector<std::string> failed;      // rows that could not be measured, and why

 private:
  double copy_bytes_per_ms_ = 0;
  double read_bytes_per_ms_ = 0;
};

struct BenchEntry {
  const char* suite;
  const char* name;  // entries of a suite run in the order of their names
  void (*run)(Bench&);
};

std::vector<BenchEntry>& bench_entries();

struct BenchRegistration {
  BenchRegistration(const char* suite, const char* name, void (*run)(Bench&)) {
    bench_entries().push_back({suite, name, run});
  }
};

}  // namespace fovea
