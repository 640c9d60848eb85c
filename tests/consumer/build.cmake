# Installs the build into a fresh folder, builds the consumer and the example against it, and runs
# them:
# cmake -DBUILD=<build folder> -DSOURCE=<this folder> -DWORK=<scratch folder> -P build.cmake
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
foreach(step
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${WORK}/prefix"
    "${CMAKE_COMMAND};-S;${SOURCE};-B;${WORK}/build;-G;Ninja;-DCMAKE_PREFIX_PATH=${WORK}/prefix;-DCMAKE_CXX_FLAGS=${FLAGS}"
    "${CMAKE_COMMAND};--build;${WORK}/build"
    "${WORK}/build/consumer;${SOURCE}/../fixtures/resample/qformer_odd"
    "${WORK}/build/ask;${SOURCE}/../fixtures/ask;${SOURCE}/../fixtures/ask/wide.png"
    "${WORK}/prefix/bin/fovea;--version")
  execute_process(COMMAND ${step} WORKING_DIRECTORY ${WORK} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
