import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/** One connection to the broker by way of a port of its own, since not every library can break one. */
final class Relay implements AutoCloseable {
  private final ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
  private volatile Socket client;
  private volatile Socket broker;

  Relay(String host, int port) throws IOException {
    start(() -> {
      client = listener.accept();
      broker = new Socket(host, port);
      start(() -> copy(broker, client));
      copy(client, broker);
    });
  }

  int port() {
    return listener.getLocalPort();
  }

  @Override
  public void close() throws IOException {
    listener.close();
    for (Socket s : new Socket[] {client, broker}) {
      if (s != null) {
        s.close();
      }
    }
  }

  private interface Work {
    void run() throws IOException;
  }

  private void start(Work work) {
    Thread t = new Thread(() -> {
      try {
        work.run();
      } catch (IOException e) {
        // One side is gone, so the other one has to go too.
      }
      try {
        close();
      } catch (IOException e) {
        // It is closed as far as it can be.
      }
    });
    t.setDaemon(true);
    t.start();
  }

  private static void copy(Socket from, Socket to) throws IOException {
    InputStream in = from.getInputStream();
    OutputStream out = to.getOutputStream();
    byte[] buffer = new byte[64 << 10];
    for (int n; (n = in.read(buffer)) >= 0; ) {
      out.write(buffer, 0, n);
    }
  }
}
