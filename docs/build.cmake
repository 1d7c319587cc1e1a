# What the target `docs` does, run from the repository's root: Doxygen, MathJax, links.
set(html build/docs/html)
file(REMOVE_RECURSE ${html})
file(MAKE_DIRECTORY ${html})

execute_process(COMMAND ${DOXYGEN} Doxyfile RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "Doxygen found the errors above (status ${status}).")
endif()

# The part of MathJax that turns TeX into SVG: it needs no network and no web fonts.
foreach(part MathJax.js extensions jax/element jax/input/TeX jax/output/SVG/jax.js
             jax/output/SVG/config.js jax/output/SVG/autoload jax/output/SVG/fonts/TeX)
  get_filename_component(directory ${part} DIRECTORY)
  file(COPY ${MATHJAX}/${part} DESTINATION ${html}/mathjax/${directory})
endforeach()

execute_process(COMMAND ${PYTHON3} docs/check_links.py ${html} RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "There are broken links; see above.")
endif()
