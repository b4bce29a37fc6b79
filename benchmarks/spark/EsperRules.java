import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;

/**
 * Runs rules over ticks in Esper, and prints how long each batch took and how many matches each rule has found.
 *
 * <p>Arguments: a file with a line for each rule (its name, a tab, its EPL), a file of ticks (for each tick symbol, time
 * in microseconds, price and volume, eight bytes each, little-endian), how many ticks a batch has, and how many threads
 * there are. Each thread has a runtime of its own and the symbols whose remainder is its number, so that no thread waits
 * for another but at the end of a batch. All events are made before the first batch begins.
 */
public class EsperRules {
    private static final String[] NAMES = {"symbol", "ts", "price", "volume"};
    private static final Object[] TYPES = {long.class, long.class, double.class, long.class};

    public static void main(String[] arguments) throws Exception {
        List<String> rules = Files.readAllLines(Path.of(arguments[0]));
        ByteBuffer ticks = ByteBuffer.wrap(Files.readAllBytes(Path.of(arguments[1]))).order(ByteOrder.LITTLE_ENDIAN);
        int rows = Integer.parseInt(arguments[2]);
        int threads = Integer.parseInt(arguments[3]);
        int batches = ticks.remaining() / 32 / rows;
        List<List<List<Object[]>>> events = new ArrayList<>();  // by batch, by thread
        for (int batch = 0; batch < batches; batch++) {
            List<List<Object[]>> parts = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                parts.add(new ArrayList<>());
            }
            for (int row = 0; row < rows; row++) {
                long symbol = ticks.getLong();
                parts.get((int) (symbol % threads))
                        .add(new Object[] {symbol, ticks.getLong(), ticks.getDouble(), ticks.getLong()});
            }
            events.add(parts);
        }
        long[][] found = new long[threads][rules.size()];
        EPRuntime[] runtimes = new EPRuntime[threads];
        for (int thread = 0; thread < threads; thread++) {
            runtimes[thread] = runtime("rules" + thread, rules, found[thread]);
        }
        long[] began = {0};
        int[] ended = {0};
        CyclicBarrier barrier = new CyclicBarrier(threads, () -> {
            long now = System.nanoTime();
            if (ended[0] > 0) {
                System.out.println("batch\t" + (now - began[0]) / 1e6);
            }
            ended[0]++;
            began[0] = System.nanoTime();
        });
        List<Thread> running = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            int own = thread;
            running.add(new Thread(() -> {
                try {
                    for (int batch = 0; batch < batches; batch++) {
                        barrier.await();
                        for (Object[] event : events.get(batch).get(own)) {
                            runtimes[own].getEventService().sendEventObjectArray(event, "Tick");
                        }
                    }
                    barrier.await();
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            }));
        }
        for (Thread thread : running) {
            thread.start();
        }
        for (Thread thread : running) {
            thread.join();
        }
        for (int rule = 0; rule < rules.size(); rule++) {
            long all = 0;
            for (long[] own : found) {
                all += own[rule];
            }
            System.out.println("matches\t" + rules.get(rule).split("\t")[0] + "\t" + all);
        }
        System.exit(0);
    }

    private static EPRuntime runtime(String name, List<String> rules, long[] found) throws Exception {
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType("Tick", NAMES, TYPES);
        // No rule waits for time, and a clock of its own would only take a thread.
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        EPRuntime runtime = EPRuntimeProvider.getRuntime(name, configuration);
        CompilerArguments compiling = new CompilerArguments(configuration);
        for (int rule = 0; rule < rules.size(); rule++) {
            EPCompiled compiled = EPCompilerProvider.getCompiler().compile(rules.get(rule).split("\t")[1], compiling);
            EPStatement statement = runtime.getDeploymentService().deploy(compiled).getStatements()[0];
            int own = rule;
            statement.addListener((matches, old, of, from) -> found[own] += matches.length);
        }
        return runtime;
    }
}
