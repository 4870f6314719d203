#pragma once

namespace trireme {

// The Newton-Schulz iterations of Muon (Jordan et al. 2024). Each one computes
// x = a x + b (x x^T) x + c (x x^T)^2 x, which brings the singular values of x near 1. After all of
// them, a singular value is between 0.68 and 1.14 if it was at least 1/500 of the Frobenius norm.
struct NewtonSchulz {
  static constexpr int kIterations = 5;
  static constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  static constexpr double kEps = 1e-7;  // added to the norm by which the matrix is divided
};

// The usual root mean square of AdamW's update. Moonlight (Liu et al. 2025) scales the update of
// Muon to it, so that both optimizers use the same learning rate and weight decay.
inline constexpr double kMuonUpdateRms = 0.2;

}  // namespace trireme
