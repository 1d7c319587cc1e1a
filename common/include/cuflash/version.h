/// @file version.h
/// The library's version, MAJOR * 10000 + MINOR * 100 + PATCH (semantic versioning).
#ifndef CUFLASH_VERSION_H_
#define CUFLASH_VERSION_H_

/// This header's version as one number: 100 means 0.1.0.
#define CUFLASH_VERSION 100

#endif  // CUFLASH_VERSION_H_
