#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "predict/predict.h"

namespace trireme {

// Errors of predictions relative to the measured values: predicted / measured - 1.
struct ErrorSummary {
  double mean_abs = 0.0;
  double max_abs = 0.0;
  double bias = 0.0;  // their mean with sign
};
ErrorSummary summarize(std::span<const double> errors);

// One number of a published table beside ours. A baseline is absent where it says nothing.
struct ReproducedRow {
  std::string row;
  std::string part;  // "": none
  double measured = 0.0;
  double predicted = 0.0;
  std::optional<double> constant = {};
  std::optional<double> roofline = {};
  std::optional<StepTimes> time = {};  // of the slowest rank, for rows that are step times

  double error() const { return error_of(predicted); }
  double error_of(double value) const { return measured != 0.0 ? value / measured - 1.0 : value; }
};

// The rows of a published table that hold the same quantity.
struct ReproducedRows {
  std::string quantity;  // such as "step time"
  std::string unit;      // such as "s"
  int digits = 3;        // printed behind the point
  std::vector<ReproducedRow> rows;

  ErrorSummary errors() const;
  // Errors of a baseline; absent if no row has it.
  std::optional<ErrorSummary> errors_of(std::optional<double> ReproducedRow::*baseline) const;
};

// How much slower the layout that we would choose is than the best one measured.
struct LayoutRegret {
  std::string chosen;  // the row with the lowest predicted time
  std::string best;    // the row with the lowest measured time
  double regret = 0.0;
};
LayoutRegret regret_of(std::span<const ReproducedRow> rows);

// A published table reproduced.
struct Reproduction {
  std::string name;
  std::string source;
  ReproducedRows table;
  ReproducedRows memory;           // rows of memory that stand in the same table; often none
  double constant_flops = 0.0;     // FLOP/s of a device in the baseline "constant"; 0: none
  bool compares_layouts = false;   // each part lists layouts of one run: their regret counts
  std::vector<std::string> notes;  // what differs from the publication, one sentence each

  std::vector<std::string> parts() const;  // in the order of the rows; "" is left out
  ReproducedRows part(const std::string& name) const;
};

}  // namespace trireme
