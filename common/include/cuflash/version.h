/// @file version.h
/// The library's version (semantic versioning); CHANGELOG.md says what is stable.
#ifndef CUFLASH_VERSION_H_
#define CUFLASH_VERSION_H_

#define CUFLASH_VERSION_MAJOR 0  ///< goes up when the C interface breaks, and the SONAME with it
#define CUFLASH_VERSION_MINOR 1  ///< goes up when something is added
#define CUFLASH_VERSION_PATCH 0  ///< goes up when something is fixed

/// This header's version as one number, 10000 · MAJOR + 100 · MINOR + PATCH: 100 means 0.1.0.
#define CUFLASH_VERSION \
  (CUFLASH_VERSION_MAJOR * 10000 + CUFLASH_VERSION_MINOR * 100 + CUFLASH_VERSION_PATCH)

#endif  // CUFLASH_VERSION_H_
