package shop;

import io.holdfast.spring.LockBusyException;
import java.util.Map;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

@RestController
public class ShopController {
    private final OrderService orders;

    ShopController(OrderService orders) {
        this.orders = orders;
    }

    @PostMapping("/orders/{id}/refund")
    Map<String, String> refund(@PathVariable String id) {
        return Map.of("answer", orders.refund(id));
    }

    @PostMapping("/items/{item}/buy")
    ResponseEntity<String> buy(@PathVariable String item, @RequestParam String buyer) {
        return orders.buy(item, buyer)
                ? ResponseEntity.ok("sold")
                : ResponseEntity.status(HttpStatus.GONE).body("sold out");
    }

    @ExceptionHandler
    ResponseEntity<String> busy(LockBusyException e) {
        return ResponseEntity.status(HttpStatus.CONFLICT).body(e.name() + " is busy, try again");
    }
}
