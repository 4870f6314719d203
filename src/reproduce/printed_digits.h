#pragma once

namespace trireme {

// Returns `value` as a table prints it with so many digits behind the point. Tables round some of
// their numbers and cut others off: of both the one that is nearer to `printed` is returned, so an
// exact value gives `printed` itself.
double as_printed(double value, int digits, double printed);

}  // namespace trireme
