// The compilers that made the library, as text in its file, where bench/provenance.py finds it.
namespace {

[[gnu::used]] const char kCompilers[] = "cuflash was compiled with " CUFLASH_COMPILERS;

}  // namespace
